"""Write staged rows and their metadata to PostgreSQL tables.

One block on the server writes them by one statement per operation, and finds those that are refused. Of the server's
time for an upload of updates a third is the `update` itself (6.8 µs a row of a table with two indexes), a quarter what
is known of the rows, a fifth the new contents. `update … returning` would spare a look-up a row, but fails for tables
with rules, and says nothing of rows that a trigger passed over.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from decimal import Decimal
from typing import assert_never

from rowtide.databases.postgres.batching import BatchingConnection
from rowtide.databases.postgres.clock import BSN
from rowtide.databases.postgres.quoting import EQUALS, quote, quote_body, quote_literal
from rowtide.databases.types.registry import find_type
from rowtide.databases.types.value_type import TypeKind
from rowtide.merge.articles import ROWGUID, Article
from rowtide.merge.errors.rows import OUTSIDE_REASON
from rowtide.merge.nodes.postgres.execution import HIGH, LOW, ONLY, OUTSIDE, WITHIN, as_block, strictest
from rowtide.merge.nodes.postgres.key_moves import Referrer, StagedKeys, moves_of_staged
from rowtide.merge.nodes.postgres.metadata.row_metadata import FILTERING, table_of
from rowtide.merge.nodes.postgres.metadata.system_tables import CONTENTS, LOG, LOG_ORDER, TOMBSTONE
from rowtide.merge.nodes.postgres.stored_tables import (
    UNLOG_FOLLOWERS,
    advances,
    keeping_followers,
    noting_followers,
    sparing,
)
from rowtide.merge.nodes.postgres.writing.retry_block import (
    OF_VALUES,
    REFUSED,
    in_retry,
    refused_rows_block,
    retrying,
)
from rowtide.merge.nodes.postgres.writing.staging import Staged, digest_of, holders_table, staging_view
from rowtide.merge.nodes.temporary_values import (
    CHARACTERS,
    FIRST_CHARACTER,
    LAST_DIGITS,
    MOST_COUNTED,
    TemporaryKind,
    temporary_kinds,
)
from rowtide.merge.partitions.belonging import ROW, belongs
from rowtide.merge.versions.apply import Logged

_HOLDER = {"place": "integer", "rowguid": "uuid"}
_PATIENCE = "1s"
"""How long a lock is waited for first; then only for a moment."""


def write(session: BatchingConnection, staged: Staged, *, is_deferred: bool = False) -> None:
    """Write staged rows, in the caller's transaction; with `is_deferred` with temporary values of unique columns first.

    Metadata is written first: what a user's trigger does to a row during the write is a later change.
    """
    before = list(_sparing(staged, "true"))
    if is_deferred:
        moving = [*_moves(staged, "true"), *before, *_temporary(staged, "true")]
        before = _without_followers([staged], "true", moving, is_whole=False)
    session.put(as_block([*before, *_statements(staged, "true")]))


def require_inside(session: BatchingConnection, parts: Sequence[Staged]) -> None:
    """Let the transaction fail if rows that it has written are outside of their bound."""
    for bounding in _bounding(parts, "true"):
        session.put(as_block([bounding]))


def write_each(session: BatchingConnection, parts: Sequence[Staged], late: Collection[str] | None) -> None:
    """Write those of the staged rows that the database takes, and list the others in `REFUSED`.

    With `late`, these rows are only retried, with those that are refused; see `retrying`.
    """
    together = strictest([part.execution for part in parts])
    statements: list[str] = []
    for part in parts:
        statements += [*_sparing(part, WITHIN), *_statements(part, WITHIN)]
    statements += [*_bounding(parts, WITHIN), *together.checking]
    rowguids = [one.rowguid for part in parts for one in part.writes]
    rights = [part.execution.write_condition(table_of(part.article)) for part in parts]
    if late is None:
        block = refused_rows_block(rights, statements, range(len(rowguids)))
    else:
        waiting = [index for index, rowguid in enumerate(rowguids) if rowguid in late]
        early = sorted(set(range(len(rowguids))).difference(waiting))
        retry = retrying(waiting, list(_exchanges(parts)), together.after)
        block = refused_rows_block(rights, [_in_retry(parts), *statements], early, retry)
    session.put(f"delete from {REFUSED}")
    session.put(f"set local lock_timeout = '{_PATIENCE}'")
    session.put(f"do {quote_body(block)}")
    session.put("set local lock_timeout = 0")


def put_holders(session: BatchingConnection, staged: Staged) -> str:
    """Return the query of the rows that have the primary keys of refused rows: the place of each, and their rowguid.

    What has to be done before it is run before.
    """
    article, execution = staged.article, staged.execution
    if execution.owner is None:
        # Mostly there are none; the server does not know that, and would read all staged rows.
        staging = f"join {staging_view(article)} i on i.rowtide_place {EQUALS} r.rowtide_place"
        return _held(staged, staging, f"{REFUSED} r")
    table = holders_table(article)
    # One by one: a text that the type of the key does not have, for which a row may be refused, is no row's key. Nor
    # may texts of other rows be read with it.
    one = f"(select * from {staging_view(article)} where {WITHIN} offset 0) i"
    found = execution.rows(_held(staged, f"cross join {one}", "(select) r"), _HOLDER)
    body = (
        f"declare {LOW} integer; {HIGH} integer; {ONLY} integer[]; begin delete from {table}; "
        f"for {LOW} in select rowtide_place from {REFUSED} loop {HIGH} := {LOW}; "
        f"begin insert into {table} select * from {found}; exception when {OF_VALUES} then null; end; end loop; "
        f"{'; '.join(execution.after)}; end"
    )
    session.put(f"do {quote_body(body)}")
    return f"select * from {table}"


def _held(staged: Staged, joined: str, refused: str) -> str:
    """Return the query of the rows that have the primary keys of refused ones, which are staged."""
    article = staged.article
    condition = f"not (t.{ROWGUID} {EQUALS} i.rowtide_guid)"
    if staged.execution.owner is None:
        condition += f" and exists (select from {REFUSED})"
    return (
        f"select i.rowtide_place, t.{ROWGUID} from {refused} {joined} "
        f"join {table_of(article)} t on {_staged_key_condition(staged)} where {condition}"
    )


def _staged_key_condition(staged: Staged, row: str = "t", name: str = "i") -> str:
    """Return the condition that a row of the table has the primary key of a staged one, by their aliases."""
    article = staged.article
    places = [(column, article.columns.index(column)) for column in article.key_columns]
    return " and ".join(
        f"{row}.{quote(column.name)} {staged.table.columns[place].equal} {staged.value(place, name)}"
        for column, place in places
    )


def _in_retry(parts: Sequence[Staged]) -> str:
    """Return the statement of a block that prepares a retry of staged rows."""
    moves = [each for part in parts for each in (*_moves(part, WITHIN), *_temporary(part, WITHIN))]
    return in_retry(["set constraints all deferred", *_without_followers(parts, WITHIN, moves, is_whole=False)])


def _exchanges(parts: Sequence[Staged]) -> Iterator[str]:
    """Yield the queries of staged rows that take the key of another, which is removed or takes theirs: both places."""
    for staged in parts:
        article, staging = staged.article, staging_view(staged.article)
        holding = (
            f"select d.rowtide_place, i.rowtide_place from {staging} i "
            f"join {table_of(article)} t on {_staged_key_condition(staged)} "
            f"join {staging} d on d.rowtide_guid {EQUALS} t.{ROWGUID}"
        )
        places = {"one": "integer", "other": "integer"}
        if {True, False} <= {one.row is None for one in staged.writes}:
            removed = f"{holding} where d.rowtide_gone and not i.rowtide_gone"
            yield f"select one, other from {staged.execution.rows(removed, places)}"
        if sum(one.row is not None and one.is_live for one in staged.writes) > 1:
            swapped = (
                f"{holding} join {table_of(article)} o on o.{ROWGUID} {EQUALS} i.rowtide_guid "
                f"and {_staged_key_condition(staged, 'o', 'd')} where i.rowtide_place operator(pg_catalog.<) "
                "d.rowtide_place and not i.rowtide_gone and not d.rowtide_gone"
            )
            yield f"select one, other from {staged.execution.rows(swapped, places)}"


def _bounding(parts: Sequence[Staged], within: str) -> Iterator[str]:
    """Yield the statements of a block that fail if staged rows, once written, are outside of their bound."""
    for staged in parts:
        if staged.bound is not None and any(one.row is not None for one in staged.writes):
            written = _condition_of(staged.article, f"not rowtide_gone and {within}")
            outside = f"{ROW}.{written} and not {belongs(staged.bound, FILTERING)}"
            yield (
                f"if exists (select from {table_of(staged.article)} as {ROW} where {outside}) "
                f"then raise exception using errcode = '{OUTSIDE}', message = {quote_literal(OUTSIDE_REASON)}; end if"
            )


def _sparing(staged: Staged, within: str) -> Iterator[str]:
    """Yield the statements of a block that fail if a foreign key's action would change rows with deleted ones, or clear
    references to rows that get other keys.
    """
    if any(one.row is None and one.is_live for one in staged.writes):
        gone, staging = f"rowtide_gone and {within}", staging_view(staged.article)
        yield from sparing(staged.article, staged.table.referrers, staging, gone, staged.execution, staged.spared)
    referrers = _movable(staged)
    if referrers:
        keys = _staged_keys(staged, within)
        yield from keeping_followers(staged.article, referrers, keys, staged.execution, staged.spared)


def _without_followers(parts: Sequence[Staged], within: str, statements: Sequence[str], *, is_whole: bool) -> list[str]:
    """Return statements of a block that write staged rows; rows of a subscriber that follow them are not logged.

    `is_whole`: one of the statements updates all staged rows.
    """
    noting: list[str] = []
    for staged in parts:
        referrers = _movable(staged)
        if referrers:
            keys = _staged_keys(staged, within)
            noting += noting_followers(
                staged.article, referrers, keys, staged.execution, staged.spared, is_whole=is_whole
            )
    return [*noting, *statements, UNLOG_FOLLOWERS] if noting else list(statements)


def _moves(staged: Staged, within: str) -> Iterator[str]:
    """Yield the statements of a block that give rows their new keys, with the rows that reference them."""
    referrers = _movable(staged)
    if referrers:
        yield from moves_of_staged(staged.article, referrers, _staged_keys(staged, within), staged.execution)


def _movable(staged: Staged) -> list[Referrer]:
    """Return the foreign keys to columns that the staged writes may change."""
    if not any(one.row is not None and one.is_live for one in staged.writes):
        return []
    given = {column.name for column in staged.table.columns if column.is_given}
    return [each for each in staged.table.referrers if not given.intersection(each.columns.values())]


def _staged_keys(staged: Staged, within: str) -> StagedKeys:
    article, table = staged.article, staged.table
    temporary = {
        name: _temporary_value(staged, name, kind)
        for name, kind in temporary_kinds(article, table.referenced).items()
        if kind is not TemporaryKind.NULL
    }
    return StagedKeys(
        staging_view(article),
        f"i.rowtide_live and not i.rowtide_gone and {within}",
        {column.name: staged.value(index) for index, column in enumerate(article.columns)},
        temporary,
        {column.name: column.equal for column in table.columns},
    )


def _temporary_value(staged: Staged, name: str, kind: TemporaryKind) -> str:
    """Return the expression of a staged row's temporary value of a unique column, of the column's type."""
    place = [column.name for column in staged.article.columns].index(name)
    type_ = staged.table.columns[place].base_type
    next_ = f"(1 {_PLUS} i.rowtide_place)"
    match kind:
        case TemporaryKind.NULL:
            return "null"
        case TemporaryKind.NUMBER:
            return f"{_next_number(staged, place)}::{type_}"
        case TemporaryKind.DATE:
            return f"({_greatest_time(staged, place, type_)} {_PLUS} {next_})"
        case TemporaryKind.TIMESTAMP:
            return f"({_greatest_time(staged, place, type_)} {_PLUS} pg_catalog.make_interval(secs => {next_}))"
        case TemporaryKind.ROWGUID:
            return f"i.rowtide_guid::pg_catalog.text::{type_}"
        case TemporaryKind.LAST_DIGITS:
            return f"pg_catalog.right(i.rowtide_guid::pg_catalog.text, {LAST_DIGITS})::{type_}"
        case TemporaryKind.CHARACTER:
            number = f"{FIRST_CHARACTER} {_PLUS} (i.rowtide_place operator(pg_catalog.%) {CHARACTERS})"
            return f"pg_catalog.chr({number})::{type_}"
        case TemporaryKind.BYTES:
            return f"pg_catalog.uuid_send(i.rowtide_guid)::{type_}"
        case _:
            assert_never(kind)


_PLUS, _MINUS = "operator(pg_catalog.+)", "operator(pg_catalog.-)"


def _next_number(staged: Staged, place: int) -> str:
    """Return the expression of a number that no row has or gets: above all, or below where the type ends there."""
    found, modifiers = find_type(staged.article.columns[place].type_text)
    unit, most = Decimal(1), None
    if found.kind is TypeKind.NUMERIC and modifiers:
        precision, scale = (*modifiers, 0)[:2]
        unit, most = Decimal(1).scaleb(-scale), Decimal(10**precision - 1).scaleb(-scale)
    elif found.bits is not None and found.kind is TypeKind.WHOLE_NUMBER:
        most = Decimal((1 << found.bits - 1) - 1)
    had = _values(staged, place, "::pg_catalog.numeric")
    counted = f"pg_catalog.abs(had) operator(pg_catalog.<=) {MOST_COUNTED}"
    step = f"(1 {_PLUS} i.rowtide_place) operator(pg_catalog.*) {unit:f}"
    above, below = (
        f"(select coalesce(pg_catalog.{extreme}(had), 0) from {had} where {counted}) {sign} {step}"
        for extreme, sign in (("max", _PLUS), ("min", _MINUS))
    )
    if most is None:
        return f"({above})"
    return f"(case when {above} operator(pg_catalog.<=) {most:f} then {above} else {below} end)"


def _greatest_time(staged: Staged, place: int, type_: str) -> str:
    had = _values(staged, place, "")
    return f"(select coalesce(pg_catalog.max(had), '2000-01-01'::{type_}) from {had} where pg_catalog.isfinite(had))"


def _values(staged: Staged, place: int, cast: str) -> str:
    """Return the values that a column has in the table or gets from staged rows, as a source `rowtide_had (had)`."""
    name = staged.article.columns[place].name
    return (
        f"(select x.{quote(name)}{cast} from {table_of(staged.article)} x union all "
        f"select {staged.value(place, 's')}{cast} from {staging_view(staged.article)} s) rowtide_had (had)"
    )


def _temporary(staged: Staged, within: str) -> Iterator[str]:
    """Yield the statements of a block that give rows temporary values of unique columns that change."""
    article = staged.article
    places = {column.name: index for index, column in enumerate(article.columns)}
    settings = ", ".join(
        f"{quote(name)} = case when row(t.{quote(name)})::record operator(pg_catalog.*<>) "
        f"row({staged.value(places[name])})::record then {_temporary_value(staged, name, kind)} "
        f"else t.{quote(name)} end"
        for name, kind in temporary_kinds(article, staged.table.referenced).items()
    )
    if settings:
        live = f"rowtide_live and not rowtide_gone and {within}"
        yield from staged.execution.in_block(
            f"update {table_of(article)} t set {settings} from {staging_view(article)} i "
            f"where t.{ROWGUID} {EQUALS} i.rowtide_guid and {live}"
        )


def _statements(staged: Staged, within: str) -> list[str]:
    """Return the statements of a block that write those of the staged rows for which a condition holds."""
    article, writes = staged.article, staged.writes
    written = _without_followers([staged], within, list(_row_statements(staged, within)), is_whole=True)
    if not article.is_tracked:
        return written
    statements = list(_removals(article, within))
    if any(one.row is not None for one in writes):
        statements.append(_contents_insertion(article, within))
    if any(one.row is None for one in writes):
        statements.append(_tombstones_insertion(article, within))
    return [*statements, *written, _alterations_insertion(staged, within)]


def _condition_of(article: Article, condition: str) -> str:
    """Return the condition that selects the staged rows.

    It makes the planner look rows up by rowguid, even in a join and with wrong statistics; see `system_tables`.
    """
    return f"{ROWGUID} {EQUALS} any (array(select rowtide_guid from {staging_view(article)} where {condition}))"


_STAMP = f"(select {BSN})"


def _contents_insertion(article: Article, within: str) -> str:
    return (
        f"insert into {CONTENTS} (tablenick, rowguid, stamp, origin, priority, lineage, last, colv, own_columns) "
        f"select {article.nickname}, rowtide_guid, {_STAMP}, rowtide_origin, rowtide_priority, rowtide_lineage, "
        f"rowtide_last, rowtide_colv, rowtide_own from {staging_view(article)} where not rowtide_gone and {within}"
    )


def _tombstones_insertion(article: Article, within: str) -> str:
    return (
        f"insert into {TOMBSTONE} (tablenick, rowguid, stamp, type, origin, priority, lineage, last) "
        f"select {article.nickname}, rowtide_guid, {_STAMP}, rowtide_type, rowtide_origin, rowtide_priority, "
        f"rowtide_lineage, rowtide_last from {staging_view(article)} "
        f"where rowtide_gone and {within}"
    )


def _removals(article: Article, within: str) -> Iterator[str]:
    """Yield the statements that delete the metadata of the rows: deleting and inserting costs less than updating."""
    # An update would write both indexes as well, since `stamp` is in one of them: it is never HOT.
    for table in (CONTENTS, TOMBSTONE):
        yield f"delete from {table} where tablenick = {article.nickname} and {_condition_of(article, within)}"


def _row_statements(staged: Staged, within: str) -> Iterator[str]:
    article, writes, execution = staged.article, staged.writes, staged.execution
    table, staging = table_of(article), staging_view(article)
    names = [quote(column.name) for column in article.columns]
    values = [staged.value(index) for index in range(len(names))]
    if any(one.row is None and one.is_live for one in writes):
        yield from execution.in_block(
            f"delete from {table} where {_condition_of(article, f'rowtide_gone and {within}')}"
        )
    if any(one.row is not None and one.is_live for one in writes):
        settings = ", ".join(
            f"{quote(column.name)} = {value}"
            for column, value in zip(staged.table.columns, values, strict=True)
            if not column.is_given
        )
        yield from execution.in_block(
            f"update {table} t set {settings} from {staging} i where t.{ROWGUID} {EQUALS} i.rowtide_guid "
            f"and t.{_condition_of(article, f'rowtide_live and not rowtide_gone and {within}')}"
        )
    if any(one.row is not None and not one.is_live for one in writes):
        yield from execution.in_block(
            # Identity columns that are `generated always` take the sent numbers, too.
            f"insert into {table} ({', '.join([*names, ROWGUID])}) overriding system value "
            f"select {', '.join([*values, 'rowtide_guid'])} from {staging} i "
            f"where not rowtide_live and not rowtide_gone and {within} order by rowtide_place"
        )
        # Programs' next inserts must not get numbers that received rows have.
        for advance in advances(staged.table.sequences, _highest_inserted(staged, within)):
            yield f"perform {advance.removeprefix('select ')}"


def _highest_inserted(staged: Staged, within: str) -> dict[str, str]:
    """Return the queries of the highest staged values of columns with a sequence, by column."""
    inserted = f"from {staging_view(staged.article)} where not rowtide_live and not rowtide_gone and {within}"
    return {
        column.name: f"select max(v{index}::bigint) {inserted}"
        for index, column in enumerate(staged.article.columns)
        if column.name in staged.table.sequences
    }


def _alterations_insertion(staged: Staged, within: str) -> str:
    """Log what triggers, rules and types made of the rows as changes of this node, which go back to their writer.

    With column tracking, a column counts as changed if its value differs, and not only the text of its value; of tables
    of owners that are not trusted, the text.
    """
    article, is_parsed = staged.article, staged.execution.owner is None
    names = values = ""
    pairs = [(f"t.{quote(column.name)}", f"i.v{index}") for index, column in enumerate(article.columns)]
    if article.column_tracking:
        changed = ", ".join(
            f"row({here})::record operator(pg_catalog.*<>) row({sent})::record"
            if is_parsed
            else f"case when {here} is not distinct from null then null else concat({here}) end is distinct from {sent}"
            for here, sent in pairs
        )
        names, values = ", columns", f", array[{changed}]"
    if article.additive_column is not None:
        place = article.index_of(article.additive_column.name)
        names += ", base, ordinal"
        values += f", (i.v{place})::text, nextval('{LOG_ORDER}')"
    kind = (
        f"case when t.{ROWGUID} is null then {Logged.DELETED.value} "
        f"when i.rowtide_gone then {Logged.INSERTED.value} else {Logged.UPDATED.value} end"
    )
    return (
        f"insert into {LOG} (tablenick, rowguid, kind, stamp{names}) "
        f"select {article.nickname}, i.rowtide_guid, {kind}, {_STAMP}{values} "
        f"from {staging_view(article)} i left join {table_of(article)} t on t.{ROWGUID} = i.rowtide_guid "
        f"and t.{_condition_of(article, within)} "
        f"where {within} and case when i.rowtide_gone then t.{ROWGUID} is not null "
        f"else t.{ROWGUID} is null or {_digest_of_row(article, 't')} <> i.rowtide_sent end"
    )


def _digest_of_row(article: Article, row: str) -> str:
    """Return the expression of the checksum of a row as the server prints it.

    `concat` calls a type's output function, where a cast to text may print something else.
    """
    values = [f"{row}.{quote(column.name)}" for column in article.columns]
    return digest_of([(value, f"concat({value})") for value in values])
