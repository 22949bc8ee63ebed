"""The triggers that say which rows of a SQLite table were changed (SQL Server: MSmerge_ins_, _upd_, _del_).

They run in any program that writes to the file: SQLite's own functions only, and tables of the main schema only. What
the agent writes is in `MSmerge_agent_rows` beforehand: its first change of a row is passed over. What a trigger of the
user's then does to the same row, or to another, counts as a change like any other.
"""

from __future__ import annotations

from rowtide.databases.sqlite.catalogue import Table
from rowtide.databases.sqlite.clock import BSN
from rowtide.databases.sqlite.displacement import Displacement
from rowtide.databases.sqlite.quoting import quote
from rowtide.merge.articles import ROWGUID, Article
from rowtide.merge.changes import TombstoneType
from rowtide.merge.sqlite.system_tables import CONTENTS, TOMBSTONE, WRITTEN

_KINDS = ("ins", "upd", "del", "ins_displaces", "upd_displaces", "rowguid")
_HEX = 16
"""Letters of a column's stamp in `own_columns`."""


def trigger_statements(article: Article, table: Table) -> dict[str, str]:
    """Return the statements that make a table's triggers, by their names."""
    quoted = quote(table.name)
    displacement = Displacement(table, [column for column in table.columns if column.name != ROWGUID])
    displaced = displacement.condition
    displacing = ", ".join(displacement.displacing_columns)
    others = f"{displaced} and r.{ROWGUID} is not old.{ROWGUID}"
    bodies = {
        "ins": (f"after insert on {quoted}", [_changed(article), _passed("new")]),
        "upd": (
            f"after update of {', '.join(displacement.written_columns)} on {quoted}",
            [_changed(article, is_update=True), _passed("new")],
        ),
        "del": (
            f"after delete on {quoted}",
            [_gone(article, "old", _IS_OF_USER.format(row="old")), _forgotten(article), _passed("old")],
        ),
        "ins_displaces": (
            f"before insert on {quoted} when exists (select 1 from {quoted} r where {displaced})",
            [_gone(article, "r", displaced, source=f"{quoted} r")],
        ),
        "upd_displaces": (
            f"before update of {displacing} on {quoted} when exists (select 1 from {quoted} r where {others})",
            [_gone(article, "r", others, source=f"{quoted} r")],
        ),
        "rowguid": (
            f"before update of {ROWGUID} on {quoted} when new.{ROWGUID} is not old.{ROWGUID}",
            ["select raise(abort, 'the column rowguid of a merged table stays as it is')"],
        ),
    }
    return {
        name: f"create trigger {quote(name)} {event} begin {'; '.join(statements)}; end"
        for name, event, statements in (
            (trigger_name(article, kind), event, statements) for kind, (event, statements) in bodies.items()
        )
    }


def trigger_names(article: Article) -> tuple[str, ...]:
    """Return the names of all triggers of an article's table."""
    return tuple(trigger_name(article, kind) for kind in _KINDS)


def trigger_name(article: Article, kind: str) -> str:
    return f"MSmerge_{kind}_{article.nickname}"


def decode_own_columns(text: str | None) -> dict[int, int]:
    """Return the stamps of columns that were changed here, by their places."""
    digits = text or ""
    pieces = (digits[start : start + _HEX] for start in range(0, len(digits), _HEX))
    return {place: stamp for place, stamp in enumerate(int(piece, 16) for piece in pieces) if stamp}


def encode_own_columns(article: Article, stamps: dict[int, int]) -> str:
    """Return stamps of columns as triggers write them."""
    return "".join(f"{stamps.get(place, 0):0{_HEX}x}" for place in range(len(article.columns)))


_IS_OF_USER = f"not exists (select 1 from {WRITTEN} where rowguid = {{row}}.{ROWGUID})"


def _changed(article: Article, *, is_update: bool = False) -> str:
    """Return the statement that notes a change of `new`; what was received before stays as what it was made on."""
    first = again = ""
    if article.column_tracking:
        first = f", {_stamps(article, None)}" if is_update else f", {_stamps_of_put_back(article)}"
        changed = _stamps(article, f"{CONTENTS}.own_columns") if is_update else "excluded.own_columns"
        again = f", own_columns = {changed}"
    tracked = ", own_columns" if first else ""
    if article.additive_column is not None and is_update:
        tracked += ", bases"
        first += f", json_array(json_array(0, cast(old.{quote(article.additive_column.name)} as text)))"
        again += f", bases = coalesce({CONTENTS}.bases, excluded.bases)"
    return (
        f"insert into {CONTENTS} (tablenick, rowguid, stamp{tracked}) "
        f"select {article.nickname}, new.{ROWGUID}, {BSN}{first} where {_IS_OF_USER.format(row='new')} "
        "on conflict (tablenick, rowguid) do update "
        f"set stamp = excluded.stamp, origin = null, priority = null{again}"
    )


def _stamps_of_put_back(article: Article) -> str:
    """Return the expression of the stamps of an inserted row's columns: all are new where it was gone in between."""
    gone = f"select 1 from {TOMBSTONE} where tablenick = {article.nickname} and rowguid = new.{ROWGUID}"
    now = " || ".join([f"printf('%0{_HEX}x', {BSN})"] * len(article.columns))
    return f"case when exists ({gone}) then {now} end"


def _stamps(article: Article, before: str | None) -> str:
    """Return the expression of the stamps of columns: now for those that an update changed."""
    pieces = []
    for place, column in enumerate(article.columns):
        name = quote(column.name)
        kept = f"'{0:0{_HEX}x}'"
        if before is not None:
            kept = f"coalesce(nullif(substr({before}, {place * _HEX + 1}, {_HEX}), ''), {kept})"
        differs = f"(old.{name} collate binary is not new.{name} or typeof(old.{name}) <> typeof(new.{name}))"
        pieces.append(f"case when {differs} then printf('%0{_HEX}x', {BSN}) else {kept} end")
    return " || ".join(pieces)


def _gone(article: Article, row: str, condition: str, *, source: str | None = None) -> str:
    """Return the statement that writes the tombstones of rows; it counts while the row is not there.

    Its lineage is that of the version that was there, or of the tombstone from before.
    """
    origin = "" if source is None else f" from {source}"
    found = f"(select lineage from {CONTENTS} where tablenick = {article.nickname} and rowguid = {row}.{ROWGUID})"
    return (
        f"insert into {TOMBSTONE} (tablenick, rowguid, stamp, type, lineage) "
        f"select {article.nickname}, {row}.{ROWGUID}, {BSN}, {TombstoneType.USER.value}, {found}{origin} "
        f"where {condition} "
        "on conflict (tablenick, rowguid) do update set stamp = excluded.stamp, type = excluded.type, origin = null, "
        f"priority = null, lineage = coalesce(excluded.lineage, {TOMBSTONE}.lineage)"
    )


def _forgotten(article: Article) -> str:
    """Return the statement that takes the metadata of `old` away."""
    return f"delete from {CONTENTS} where tablenick = {article.nickname} and rowguid = old.{ROWGUID}"


def _passed(row: str) -> str:
    """Return the statement that ends the agent's own change of a row."""
    return f"delete from {WRITTEN} where rowguid = {row}.{ROWGUID}"
