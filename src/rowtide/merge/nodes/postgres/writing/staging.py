"""Staging tables of a PostgreSQL node: temporary tables in which received rows wait for the statements that write them.

A value is parsed by its column's own type as it gets there.

A staged row has a checksum of the texts that were sent. After the write one statement compares it with the row as the
server prints it, and logs rows that differ as changes of this node: what a type or a trigger made of a row goes back to
its writer, while the sender's version is stored as received, so that nobody sends it again. That costs a look-up by
rowguid for each row. Triggers at both ends that set a value at each write keep such a row moving.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field

from rowtide.core.values import frozen
from rowtide.databases.postgres.batching import BatchingConnection
from rowtide.databases.postgres.owner_functions import Owner
from rowtide.databases.postgres.quoting import quote, quote_literal
from rowtide.merge.articles import Article
from rowtide.merge.nodes.postgres.execution import Execution
from rowtide.merge.nodes.postgres.key_moves import FOLLOWING, MOVE_TABLES, MOVED, OWN
from rowtide.merge.nodes.postgres.metadata.row_metadata import escaped, table_of, uuid_array
from rowtide.merge.nodes.postgres.sendable_texts import array_of
from rowtide.merge.nodes.postgres.stored_tables import StoredColumn, StoredTable
from rowtide.merge.nodes.postgres.writing.retry_block import INVALID, REFUSED
from rowtide.merge.nodes.untyped_values import rows_as_stored_by_server
from rowtide.merge.partitions.filters import RowFilter
from rowtide.merge.versions.changes import Row, RowChange, Write, number_alike

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
"""The place of a row among those that a statement is given, from 1."""
_BETWEEN, _NULL = "\x1f", "\x02"
"""What separates the texts of a row in its checksum, and what stands there for NULL."""


@frozen
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


@dataclass(slots=True)
class ReceivedRows:
    """Rows that the session has received before the transaction, by rowguid with their places from 1, and as arrays."""

    rows: dict[str, tuple[int, Row]] = field(default_factory=dict)
    arrays: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, article: Article, changes: Sequence[RowChange]) -> ReceivedRows:
        """Return the rows of changes; none if a text is among them that no server takes."""
        listed = [(one.rowguid, one.row) for one in changes if one.row is not None]
        values = rows_as_stored_by_server(article, [row for _, row in listed])
        try:
            arrays = [array_of([row[index] for row in values]) for index in range(len(article.columns))]
        except ValueError:
            return cls()
        return cls({rowguid: (index, row) for index, (rowguid, row) in enumerate(listed, 1)}, arrays)

    def has(self, rowguid: str, row: Row | None) -> bool:
        """Whether a row was received as it is."""
        return rowguid in self.rows and self.rows[rowguid][1] == row


def make_staging(session: BatchingConnection, article: Article, execution: Execution) -> None:
    """Create the staging tables of an article, in the caller's transaction."""
    rows, known, view = rows_table(article), _known_table(article), staging_view(article)
    types = ["null::text" if execution.owner else f"t.{quote(column.name)}" for column in article.columns]
    columns = "".join(f", {type_} as v{index}" for index, type_ in enumerate(types))
    places = (
        "null::integer as rowtide_place, null::uuid as rowtide_guid, null::integer as rowtide_number, "
        "null::bigint as rowtide_sent"
    )
    metadata = ", ".join(f"{name} {type_}" for name, type_ in _METADATA.items())
    # A table of that name that another role has left is dropped, never reused; if the agent may not drop it, it fails.
    # Made by a query, the columns have the table's types without its defaults, identities and checks.
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
    session.put(f"drop table if exists {', '.join((REFUSED, INVALID, OWN, MOVED, FOLLOWING))}")
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


def stage(
    session: BatchingConnection,
    staged: Staged,
    stamp: int,
    received: ReceivedRows | None = None,
    *,
    is_tolerant: bool = False,
) -> None:
    """Send rows with their metadata to the staging tables, in the caller's transaction, in place of what was there.

    Of rows that were received before only the places are sent. With `is_tolerant`, rows with values that their columns'
    types do not take are listed in `INVALID` instead.

    Raises `ValueError` for a text that no server takes.
    """
    article = staged.article
    numbers, firsts = number_alike(staged.writes)
    listed = list(enumerate(staged.writes))
    there = [(place, one) for place, one in listed if received is not None and received.has(one.rowguid, one.row)]
    session.put(f"delete from {rows_table(article)}")
    session.put(f"delete from {_known_table(article)}")
    if received is not None and there:
        at = dict(there)
        listed = [(place, one) for place, one in listed if place not in at]
        given = {
            "rowtide_guid": uuid_array([one.rowguid for _, one in there]),
            "rowtide_row": array_of(str(received.rows[one.rowguid][0]) for _, one in there),
            "rowtide_ordinal": array_of(str(place + 1) for place, _ in there),
            "number": array_of(str(numbers[place]) for place, _ in there),
        }
        names = _names(article)
        source = (
            f"unnest({_arrays(names)}) with ordinality r ({', '.join([*names, 'rowtide_at'])}) "
            f"join unnest({_arrays(given)}) u ({', '.join(given)}) on r.rowtide_at = u.rowtide_row::bigint"
        )
        place = f"{staged.first - 1} + rowtide_ordinal::integer"
        session.put(_insertion(staged, source, place, "number::integer"), [*received.arrays, *given.values()])
    if listed:
        _send(session, staged, listed, [numbers[place] for place, _ in listed], is_tolerant=is_tolerant)
    known = [(number, *_metadata(article, one, stamp)) for number, one in enumerate(firsts)]
    described = [array_of(map(_text, column)) for column in zip(*known, strict=True)]
    columns = ", ".join(_METADATA)
    values = ", ".join(f"{name}::{kind}" for name, kind in _METADATA.items())
    session.put(
        f"insert into {_known_table(article)} ({columns}) select {values} "
        f"from unnest({_arrays(_METADATA)}) u ({columns})",
        described,
    )


def _send(
    session: BatchingConnection,
    staged: Staged,
    listed: Sequence[tuple[int, Write]],
    numbers: Sequence[int],
    *,
    is_tolerant: bool,
) -> None:
    """Send rows, each with its place among the writes and the number of its metadata, to the staging table."""
    article, names = staged.article, _names(staged.article)
    nothing = (None,) * len(names)
    values = rows_as_stored_by_server(article, [nothing if one.row is None else one.row for _, one in listed])
    arrays = [array_of([row[index] for row in values]) for index in range(len(names))]
    given = {"rowtide_guid": uuid_array([one.rowguid for _, one in listed])}
    number, place = "0", f"{staged.first - 1} + {_ORDINAL}"
    if any(numbers):
        given["number"] = array_of(map(str, numbers))
        number = "number::integer"
    if len(listed) < len(staged.writes):
        given["rowtide_nth"] = array_of(str(nth) for nth, _ in listed)
        place = f"{staged.first} + rowtide_nth::integer"
    own = [*names, *given]
    source = f"unnest({_arrays(own)}) with ordinality u ({', '.join([*own, _ORDINAL])})"
    condition = ""
    # Types of other roles are left to these: what they do not take is refused when it is written.
    if is_tolerant and staged.execution.owner is None:
        session.put(_finding_invalid(staged.table.columns, place), arrays)
        condition = f" where {place} not in (select rowtide_place from {INVALID})"
    session.put(_insertion(staged, source, place, number) + condition, [*arrays, *given.values()])


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


def _names(article: Article) -> list[str]:
    return [f"v{index}" for index in range(len(article.columns))]


def _arrays(names: Iterable[str]) -> str:
    return ", ".join("%s::text[]" for _ in names)


def _insertion(staged: Staged, source: str, place: str, number: str) -> str:
    """Return the statement that fills the staging table from arrays of texts, one per column.

    Each text is parsed by the type without a length: the assignment checks that, as it does for any insert.
    """
    names, is_parsed = _names(staged.article), staged.execution.owner is None
    values = {
        "rowtide_guid": "rowtide_guid::uuid",
        **{
            name: escaped(column.parse(name)) if is_parsed else name
            for name, column in zip(names, staged.table.columns, strict=True)
        },
        "rowtide_place": place,
        "rowtide_number": number,
        "rowtide_sent": digest_of([(name, name) for name in names]),
    }
    selected = ", ".join(values.values())
    return f"insert into {rows_table(staged.article)} ({', '.join(values)}) select {selected} from {source}"


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
    own = ",".join(str(stamp) if index in one.own_columns else "null" for index in range(len(article.columns)))
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
    # `is null` would also hold for a composite value whose fields are all null. By bytes, since the hash of a text in a
    # nondeterministic collation is that of its sort key.
    texts = f" || {_character(_BETWEEN)} || ".join(
        f"case when {value} is not distinct from null then {_character(_NULL)} else {text} end"
        for value, text in values
    )
    return f'hashtextextended(({texts}) collate "C", 0)'


def _character(character: str) -> str:
    return f"E'\\x{ord(character):02x}'"
