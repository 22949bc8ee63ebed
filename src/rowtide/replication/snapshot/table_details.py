"""What making a published table at a subscriber needs besides its article."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GeneratedColumn:
    """A column that is computed from others; `number` is its place in the table."""

    number: int
    name: str
    type_text: str
    expression: str


@dataclass(frozen=True, slots=True)
class UniqueConstraint:
    """A unique constraint; `definition` as SQL writes it behind its name. A deferrable one is checked late."""

    name: str
    columns: tuple[str, ...]
    definition: str
    is_deferrable: bool


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """A foreign key, and what it refers to."""

    name: str
    columns: tuple[str, ...]
    referenced_id: int
    referenced_columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TableDetails:
    """What making a published table needs besides the article; `collations` are those that are not their type's."""

    collations: dict[str, str]
    generated: tuple[GeneratedColumn, ...]
    unique: tuple[UniqueConstraint, ...]
    foreign_keys: tuple[ForeignKey, ...]
