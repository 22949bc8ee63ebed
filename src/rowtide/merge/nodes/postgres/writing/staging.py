"""Staging tables of a PostgreSQL node: temporary tables in which received rows wait for the statements that write them.

A value is parsed by its column's own type as it gets there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from types import MappingProxyType

from rowtide.databases.postgres.batching import BatchingConnection
from rowtide.databases.postgres.owners import Owner
from rowtide.databases.postgres.quoting import quote, quote_literal
from rowtide.merge.articles import Article
from rowtide.merge.nodes.postgres.array_texts import array_of
from rowtide.merge.nodes.postgres.execution import Execution
from rowtide.merge.nodes.postgres.key_moves import MOVE_TABLES, MOVED, OWN
from rowtide.merge.nodes.postgres.metadata.row_metadata import escaped, table_of, uuid_array
from rowtide.merge.nodes.postgres.writing.refused_rows import INVALID, REFUSED
from rowtide.merge.nodes.postgres.writing.stored_tables import StoredColumn, StoredTable
from rowtide.merge.nodes.untyped_values import rows_as_stored_by_server
from rowtide.merge.partitions.filters import RowFilter
from rowtide.merge.versions.changes import Write, number_alike

_METADATA = {
    "rowtide_number": "integer",
    "rowtide_gone": "boolean",
    "rowtide_live": "boolean",
    "rowtide_type": "smallint",
    "rowtide_origin": "bigint",
    "rowtide_priority": "double precision",
    "rowtide_lineage": "bytea",
    "rowtide_last": "bytea",
    "rowtide_colv": "bytea",
    "rowtide_own": "bigint[]",
}
"""What is to be known of rows, and done to them, once for all rows with the same."""
_ORDINAL = "rowtide_ordinal"
"""The place of a row among those that a statement brings, from 1."""
_BETWEEN, _NULL = "\x1f", "\x02"
"""What separates the texts of a row in its checksum, and what stands there for NULL."""


@dataclass(frozen=True, slots=True)
class Staged:
    """Writes of an article, the first of which has a place among all that are written together.

    `bound` is the partition that the rows have to be in, if any, `spared` the articles whose rows no delete is to take
    along, by nickname.
    """

    article: Article
    table: StoredTable
    writes: Sequence[Write]
    first: int
    execution: Execution
    bound: RowFilter | None = None
    spared: Set[int] = frozenset()

    def value(self, place: int, row: str = "i") -> str:
        """Return the expression of a staged row's value, of its column's type."""
        name = f"{row}.v{place}"
        return name if self.execution.owner is None else self.table.columns[place].parse(name)


def make_staging(session: BatchingConnection, article: Article, execution: Execution) -> None:
    """Create the staging tables of an article, in the caller's transaction."""
    rows, known, view = rows_table(article), _known_table(article), staging_view(article)
    types = ["null::text" if execution.owner else f"t.{quote(column.name)}" for column in article.columns]
    columns = "".join(f", {type_} as v{place}" for place, type_ in enumerate(types))
    places = (
        "null::integer as rowtide_place, null::uuid as rowtide_guid, null::integer as rowtide_number, "
        "null::bigint as rowtide_sent"
    )
    metadata = ", ".join(f"{name} {type_}" for name, type_ in _METADATA.items())
    # Nobody else's table is taken for ours: if one is there the agent may not drop it, or does.
    copied = f"select {places}{columns} from {table_of(article)} t with no data"
    for statement in (
        f"drop view if exists {view}",
        f"drop table if exists {rows}, {known}",
        f"create temporary table {rows} on commit delete rows as {copied}",
        f"create temporary table {known} ({metadata}) on commit delete rows",
        f"create temporary view {view} as select * from {rows} join {known} using (rowtide_number)",
    ):
        session.put(statement)
    if execution.owner is not None:
        role = quote(execution.owner.name)
        session.put(f"drop table if exists {holders_table(article)}")
        session.put(f"create temporary table {holders_table(article)} (rowtide_place integer, rowguid uuid)")
        session.put(f"grant select on {view} to {role}")


def make_lists(session: BatchingConnection) -> None:
    """Create the temporary tables that all articles share, in the caller's transaction."""
    session.put(f"drop table if exists {', '.join((REFUSED, INVALID, OWN, MOVED))}")
    for table in (REFUSED, INVALID):
        session.put(
            f"create temporary table {table} (rowtide_place integer, state text, message text) on commit delete rows"
        )
    for statement in MOVE_TABLES:
        session.put(statement)


def share_lists(session: BatchingConnection, owner: Owner) -> None:
    """Let an owner who is not trusted use the tables of `make_lists` that its statements name."""
    role = quote(owner.name)
    session.put(f"grant select on {REFUSED}, {OWN} to {role}")
    session.put(f"grant insert on {MOVED} to {role}")


def stage(session: BatchingConnection, staged: Staged, stamp: int, *, is_tolerant: bool = False) -> None:
    """Send rows with their metadata to the staging tables, in the caller's transaction, in place of what was there.

    With `is_tolerant`, rows with values that their columns' types do not take are listed in `INVALID` instead.

    Raises `ValueError` for a text that no server takes.
    """
    article = staged.article
    numbers, firsts = number_alike(staged.writes)
    nothing = (None,) * len(article.columns)
    values = rows_as_stored_by_server(article, [nothing if one.row is None else one.row for one in staged.writes])
    rows = [
        uuid_array([one.rowguid for one in staged.writes]),
        *(array_of([row[place] for row in values]) for place in range(len(article.columns))),
    ]
    parsed = {"rowtide_guid": "rowtide_guid::uuid"}
    number = "0"
    if len(firsts) > 1:
        rows.append(array_of(map(str, numbers)))
        number = "number::integer"
    known = [(number, *_metadata(article, one, stamp)) for number, one in enumerate(firsts)]
    described = [array_of(map(_text, column)) for column in zip(*known, strict=True)]
    names = [f"v{place}" for place in range(len(article.columns))]
    # Types of other roles are left to these: what they do not take is refused when it is written.
    is_parsed = staged.execution.owner is None
    own = {
        name: column.parse(name) if is_parsed else name
        for name, column in zip(names, staged.table.columns, strict=True)
    }
    place = f"{staged.first - 1} + {_ORDINAL}"
    others = {
        "rowtide_place": place,
        "rowtide_number": number,
        "rowtide_sent": digest_of([(name, name) for name in own]),
    }
    session.put(f"delete from {rows_table(article)}")
    session.put(f"delete from {_known_table(article)}")
    unread = () if len(firsts) == 1 else ("number",)
    condition = ""
    if is_tolerant and is_parsed:
        values_of = rows[1 : 1 + len(article.columns)]
        session.put(_finding_invalid(staged.table.columns, place), values_of)
        condition = f" where {place} not in (select rowtide_place from {INVALID})"
    session.put(_insertion(rows_table(article), parsed | own, others, unread) + condition, rows)
    session.put(
        _insertion(_known_table(article), {name: f"{name}::{kind}" for name, kind in _METADATA.items()}), described
    )


def staging_view(article: Article) -> str:
    """Return the name of the view of the staged rows joined with their metadata."""
    return f"pg_temp.{quote(f'rowtide_in_{article.nickname}')}"


def rows_table(article: Article) -> str:
    """Return the name of the table of the staged rows."""
    return f"pg_temp.{quote(f'rowtide_in_{article.nickname}_rows')}"


def holders_table(article: Article) -> str:
    """Return the name of the table of the rows that have keys of refused ones, as its owner has found them."""
    return f"pg_temp.{quote(f'rowtide_in_{article.nickname}_holders')}"


def _known_table(article: Article) -> str:
    return f"pg_temp.{quote(f'rowtide_in_{article.nickname}_known')}"


def _insertion(
    table: str, parsed: Mapping[str, str], others: Mapping[str, str] = MappingProxyType({}), unread: Sequence[str] = ()
) -> str:
    """Return the statement that fills a table from arrays of texts, one per column; others are expressions of them.

    `unread` are the names of further arrays. Each text is parsed by the type without a length: the assignment checks
    that, as it does for any insert.
    """
    names = [*parsed, *unread]
    values = [value.replace("%", "%%") for value in parsed.values()]
    arrays = ", ".join("%s::text[]" for _ in names)
    return (
        f"insert into {table} ({', '.join([*parsed, *others])}) select {', '.join([*values, *others.values()])} "
        f"from unnest({arrays}) with ordinality u ({', '.join([*names, _ORDINAL])})"
    )


def _finding_invalid(columns: Sequence[StoredColumn], place: str) -> str:
    """Return the statement that lists rows in `INVALID`, from arrays of texts, one per column."""
    names = [f"v{number}" for number in range(len(columns))]
    types = (escaped(quote_literal(column.full_type)) for column in columns)
    pairs = ", ".join(f"({name}, {type_})" for name, type_ in zip(names, types, strict=True))
    return (
        f"insert into {INVALID} select {place}, e.state, e.message "
        f"from unnest({', '.join('%s::text[]' for _ in names)}) with ordinality u ({', '.join([*names, _ORDINAL])}) "
        f"cross join lateral (select i.sql_error_code, i.message from (values {pairs}) c (value, kind) "
        "cross join lateral pg_input_error_info(c.value, c.kind) i where i.message is not null limit 1) "
        "e (state, message)"
    )


def _metadata(article: Article, one: Write, stamp: int) -> tuple[object, ...]:
    own = ",".join(str(stamp) if place in one.own_columns else "null" for place in range(len(article.columns)))
    return (
        one.row is None,
        one.is_live,
        one.tombstone.value,
        one.origin,
        one.priority,
        one.lineage,
        one.last,
        one.columns,
        f"{{{own}}}" if one.own_columns else None,
    )


def _text(value: object) -> str | None:
    """Return a value in the server's text form."""
    return f"\\x{value.hex()}" if isinstance(value, bytes) else None if value is None else str(value)


def digest_of(values: Iterable[tuple[str, str]]) -> str:
    """Return the expression of the checksum of a row, from expressions of its values and of their texts."""
    texts = f" || {_character(_BETWEEN)} || ".join(
        f"case when {value} is not distinct from null then {_character(_NULL)} else {text} end"
        for value, text in values
    )
    return f'hashtextextended(({texts}) collate "C", 0)'


def _character(character: str) -> str:
    return f"E'\\x{ord(character):02x}'"
