"""Stamps in a separate table, by packed key: the tracked table gets triggers, but no column."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, text

from rowtide.databases.postgres.clock import BSN, SCHEMA, SEEN_SETTING
from rowtide.databases.postgres.quoting import quote, quote_qualified
from rowtide.databases.source_table import SourceTable, TableKind
from rowtide.tracking.options import TrackingOptions
from rowtide.tracking.postgres.subject import CHANGE_BSN, CONTEXT, INSERT_BSN, STAMPS, Subject
from rowtide.tracking.postgres.trigger_text import (
    OF_OTHERS,
    ROW_CONTEXT,
    AroundRelation,
    burial,
    function,
    function_name,
    trigger,
    truncate_triggers,
    truncating,
)

_KEY = '"__sysRK"'
_OWN_CONTEXT = f"({ROW_CONTEXT})::uuid"


@dataclass(frozen=True, slots=True)
class SideStamps:
    """A separate table, written after each row, in the order of writes: one statement may write a row several times."""

    subject: Subject

    @property
    def source(self) -> str:
        stamps = ", ".join(f"s.{quote(name)}" for name in STAMPS)
        same = self.subject.has_key("t", f"s.{_KEY}")
        return f"(select t.*, {stamps} from {self._rows} s join {self.subject.rows} t on {same})"

    @property
    def holder(self) -> tuple[str, str]:
        return SCHEMA, f"__sysRows_{self.subject.table.source_id}"

    @property
    def _rows(self) -> str:
        return quote_qualified(*self.holder)

    def is_there(self, connection: Connection) -> bool:
        found = connection.execute(text("select to_regclass(:name)"), {"name": self._rows})
        return found.scalar() is not None

    def creations(self) -> list[str]:
        columns = ", ".join(f"{quote(name)} {kind}" for name, kind in STAMPS.items())
        return [f"create table if not exists {self._rows} ({_KEY} text[] primary key, {columns})"]

    def removals(self) -> list[str]:
        return [f"drop table if exists {self._rows}"]

    def trigger_creations(self) -> list[str]:
        subject, options = self.subject, self.subject.options
        bodies = {"delete": f"{self._bury()} {self._forget('old')}"}
        events = {"delete": "after delete", "key": "after update"}
        conditions = {"key": f"when ({subject.key_differs()})", "update": f"when (not ({subject.key_differs()}))"}
        bodies["key"] = f"{self._bury()} {self._stamp_moved()} {self._forget('old')}"
        if TrackingOptions.INSERT in options:
            bodies["insert"], events["insert"] = self._stamp_new(), "after insert"
        if TrackingOptions.UPDATE in options:
            bodies["update"], events["update"] = self._stamp_changed(), "after update"
        statements = [
            made for what, body in bodies.items() for made in function(subject, what, f"begin {body} return null; end")
        ]
        for what, event in events.items():
            call = f"for each row {conditions.get(what, '')} execute function {function_name(subject, what)}()"
            statements += trigger(what, event, subject.quoted, call)
        burying = self._burial_of_truncated() if TrackingOptions.DELETE in options else None
        truncate = truncating(subject, burying, forgetting=f"delete from {self._rows}")
        return [*statements, *truncate, *truncate_triggers(subject)]

    def _bury(self) -> str:
        if TrackingOptions.DELETE not in self.subject.options:
            return ""
        stamp = f"(select {quote(INSERT_BSN)} from {self._rows} where {_KEY} = {self.subject.packed_key('old')})"
        return f"{burial(self.subject, 'old', stamp)};"

    def _burial_of_truncated(self) -> AroundRelation:
        before = burial(self.subject, "gone", f"s.{quote(INSERT_BSN)}", "from ")
        return AroundRelation(before, f" gone left join {self._rows} s on s.{_KEY} = {self.subject.packed_key('gone')}")

    def _forget(self, row: str) -> str:
        return f"delete from {self._rows} where {_KEY} = {self.subject.packed_key(row)};"

    def _stamp_new(self, context: str = _OWN_CONTEXT) -> str:
        """Return the statement that stamps row `new` as inserted."""
        inserted = BSN if TrackingOptions.INSERT in self.subject.options else "null"
        names = (CHANGE_BSN, INSERT_BSN, CONTEXT)
        return self._upsert(inserted, context, {name: f"excluded.{quote(name)}" for name in names})

    def _stamp_moved(self) -> str:
        """Return the same for a row that had the key of `old`."""
        of_old = f"select from {self._rows} s where s.{_KEY} = {self.subject.packed_key('old')} and {_is_unseen('s')}"
        return self._stamp_new(f"case when exists ({of_old}) then '{OF_OTHERS}' else {_OWN_CONTEXT} end")

    def _stamp_changed(self) -> str:
        """Return the statement that stamps row `new` as updated; a row from before tracking has no stamps yet."""
        context = f"case when {_is_unseen('kept')} then '{OF_OTHERS}' else excluded.{quote(CONTEXT)} end"
        return self._upsert("null", _OWN_CONTEXT, {CHANGE_BSN: f"excluded.{quote(CHANGE_BSN)}", CONTEXT: context})

    def _upsert(self, inserted: str, context: str, stamped_before: Mapping[str, str]) -> str:
        names = ", ".join(map(quote, (CHANGE_BSN, INSERT_BSN, CONTEXT)))
        again = ", ".join(f"{quote(name)} = {value}" for name, value in stamped_before.items())
        return (
            f"insert into {self._rows} as kept ({_KEY}, {names}) "
            f"values ({self.subject.packed_key('new')}, {BSN}, {inserted}, {context}) "
            f"on conflict ({_KEY}) do update set {again};"
        )


def find_blocker(table: SourceTable, key: Collection[str]) -> str | None:
    """Return why the stamps of a table with this key cannot be beside its rows, None if they can.

    Keys that are compared at commit may be double before; a row that moves to another partition is deleted and
    inserted, and its stamps are not at hand any more (docs/decisions/0011).
    """
    if table.kind is TableKind.PARTITIONED:
        return "it is partitioned"
    is_deferrable = any(set(index.columns) == set(key) and not index.is_immediate for index in table.indexes)
    return "its key is deferrable" if is_deferrable else None


def _is_unseen(stamps: str) -> str:
    """Return the condition that the writer has a context, and has not seen another's last change of the row."""
    seen = f"nullif(pg_catalog.current_setting('{SEEN_SETTING}', true), '')"
    return (
        f"{_OWN_CONTEXT} is not null and {seen} is not null "
        f"and {stamps}.{quote(CONTEXT)} is distinct from {_OWN_CONTEXT} "
        f"and not pg_catalog.pg_visible_in_snapshot({stamps}.{quote(CHANGE_BSN)}::text::xid8, {seen}::pg_snapshot)"
    )
