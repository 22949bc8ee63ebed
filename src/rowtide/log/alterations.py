"""What DDL did to a table that members read: the content of a `ddl` announcement.

An event trigger writes it, inside the transaction that altered the table. It tells what the log itself does not: which
columns are the same under another name, the types' names, and whether values were rewritten.
"""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import TypeAdapter


@dataclass(frozen=True, slots=True)
class AlteredColumn:
    """A column of the table after the statement; `number` is the same for as long as the column exists.

    `base_type_text` is what a domain's values are, None where the type is no domain.
    """

    number: int
    name: str
    type_text: str
    type_code: int
    type_modifier: int
    base_type_text: str | None
    is_nullable: bool
    is_generated: bool
    default: str | None


@dataclass(frozen=True, slots=True)
class Alteration:
    """A table after a statement altered it.

    `statement` is the whole text that the client sent: it may hold several statements. `rewrites_values` says that
    the server computed the values of a column anew, which leaves no change rows. `is_inherited`: the statement altered
    a table or type from which this table has columns. `renames`: no trigger told the statement, which is made up of
    these pairs of old and new names.
    """

    source_id: int
    schema: str
    table: str
    command: str
    statement: str
    rewrites_values: bool
    columns: tuple[AlteredColumn, ...]
    is_inherited: bool = False
    renames: tuple[tuple[str, str], ...] = ()


_ALTERATION = TypeAdapter(Alteration)


def encode_alteration(alteration: Alteration) -> str:
    """Return the content of a ddl announcement."""
    return _ALTERATION.dump_json(alteration).decode()


def decode_alteration(content: str) -> Alteration:
    """Read the content of a ddl announcement. Raises `pydantic.ValidationError`."""
    return _ALTERATION.validate_json(content)
