"""Queries of the documented tables of changed rows and of generations. Pure."""

from __future__ import annotations

from rowtide.merge.definitions import CONTENTS, TOMBSTONE, genhistory, publications, replinfo, subscriptions
from rowtide.merge.documented.dialect import Dialect
from rowtide.merge.documented.names import CONTENTS_VIEW, TOMBSTONE_VIEW

_NO_LOGICAL_RECORDS = "null as logical_record_parent_rowguid, null as logical_record_lineage"


def select_contents(dialect: Dialect) -> str:
    stored = dialect.name(CONTENTS)

    def columns(row: str) -> str:
        generation = dialect.generation_of(f"{row}.stamp")
        return (
            f"select {row}.tablenick, {row}.rowguid, {generation} as generation, {generation} as partchangegen, "
            f"c.lineage, c.colv as colvl, null as marker, {_NO_LOGICAL_RECORDS}, null as logical_relation_change_gen "
        )

    return (
        f"with pending as ({dialect.pending}) "
        f"{columns('c')}from {stored} c {dialect.join_generation('c.stamp')} "
        f"where not exists ({_same('pending', 'c')}) union all "
        f"{columns('p')}from pending p left join {stored} c on c.tablenick = p.tablenick and c.rowguid = p.rowguid "
        f"{dialect.join_generation('p.stamp')} where p.is_live = 1"
    )


def select_tombstone(dialect: Dialect) -> str:
    contents, stored = dialect.name(CONTENTS), dialect.name(TOMBSTONE)
    return (
        f"with pending as ({dialect.pending}) "
        f"select d.rowguid, d.tablenick, d.type, d.lineage, {dialect.generation_of('d.stamp')} as generation, "
        f"{_NO_LOGICAL_RECORDS} from {stored} d {dialect.join_generation('d.stamp')} "
        f"where not exists ({_same('pending', 'd')}) and not exists ({_same(contents, 'd')}) union all "
        "select p.rowguid, p.tablenick, 1, coalesce(c.lineage, d.lineage), "
        f"{dialect.generation_of('p.stamp')}, null, null from pending p "
        f"left join {contents} c on c.tablenick = p.tablenick and c.rowguid = p.rowguid "
        f"left join {stored} d on d.tablenick = p.tablenick and d.rowguid = p.rowguid "
        f"{dialect.join_generation('p.stamp')} where p.is_live = 0"
    )


def _same(table: str, row: str) -> str:
    return f"select 1 from {table} o where o.tablenick = {row}.tablenick and o.rowguid = {row}.rowguid"


def select_genhistory(dialect: Dialect) -> str:
    """Return the query of closed, received and open generations; the open one is listed if it has changes."""
    both = " union all ".join(
        f"select generation, tablenick from {dialect.name(view)}" for view in (CONTENTS_VIEW, TOMBSTONE_VIEW)
    )
    counted = "select generation, count(*) as changes, min(tablenick) as lowest, max(tablenick) as highest"
    self, listed = dialect.name(replinfo.name), dialect.name(publications.name)
    subscribed = dialect.name(subscriptions.name)
    pubid = f"(select case when count(*) = 1 then min(q.pubid) end from {listed} q)"
    article = "case when c.lowest = c.highest then c.lowest else 0 end"
    has = (
        "select self.nickname as n union select h.nickname union select s.replnickname "
        f"from {subscribed} s where h.nickname = self.nickname and s.sentgen >= h.generation"
    )
    return (
        f"with changed as ({counted} from ({both}) b group by generation) "
        f"select h.guidsrc, {pubid} as pubid, h.generation, {article} as art_nick, {dialect.nicknames(has)} as "
        "nicknames, h.coldate, h.genstatus, case when h.nickname = self.nickname then coalesce(c.changes, 0) end as "
        f"changecount from {dialect.name(genhistory.name)} h cross join {self} self "
        "left join changed c on c.generation = h.generation and h.nickname = self.nickname union all "
        f"select null, {pubid}, c.generation, {article}, {dialect.nicknames('select self.nickname as n')}, null, 0, "
        f"c.changes from changed c cross join {self} self where c.generation = {dialect.open_generation}"
    )
