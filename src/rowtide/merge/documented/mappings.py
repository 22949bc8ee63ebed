"""Queries of the documented tables of partitions, and of the rows and generations in them. Pure."""

from __future__ import annotations

from rowtide.merge.definitions import genhistory, partition_groups, replinfo
from rowtide.merge.documented.dialect import Dialect, publication_number
from rowtide.merge.documented.names import CONTENTS_VIEW, CURRENT_MAPPINGS, PAST_MAPPINGS, TOMBSTONE_VIEW


def select_partition_groups(dialect: Dialect) -> str:
    return (
        f"select g.partition_id, {publication_number(dialect, 'g.pubid')} as publication_number, "
        'null as maxgen_whenadded, 1 as using_partition_groups, g."HOST_NAME_FN", g."SUSER_NAME_FN", g.is_explicit '
        f"from {dialect.name(partition_groups.name)} g"
    )


def select_current_mappings(dialect: Dialect) -> str:
    number = publication_number(dialect, "m.pubid")
    return (
        f"select {number} as publication_number, m.tablenick, m.rowguid, m.partition_id from ({dialect.members}) m "
        "where m.is_in = 1 and m.is_changed = 1"
    )


def select_past_mappings(dialect: Dialect) -> str:
    """Return the query of rows that subscribers have and that are in their partitions no more.

    Their generation is that of the change by which they left: of the row itself, or of its parent.
    """
    rows = [
        (f"{alias}{number}", dialect.name(view), rowguid)
        for number, rowguid in enumerate(("m.rowguid", "m.parent"))
        for alias, view in (("d", TOMBSTONE_VIEW), ("c", CONTENTS_VIEW))
    ]
    # A rowguid is unique among all tables.
    joins = " ".join(f"left join {view} {alias} on {alias}.rowguid = {rowguid}" for alias, view, rowguid in rows)
    generation = f"coalesce({', '.join(f'{alias}.generation' for alias, _, _ in rows)}, {dialect.open_generation})"
    return (
        f"select {publication_number(dialect, 'm.pubid')} as publication_number, m.tablenick, m.rowguid, "
        f"m.partition_id, {generation} as generation, case when d0.rowguid is null then 5 else 1 end as reason "
        f"from ({dialect.members}) m {joins} where m.is_in = 0 and m.is_held = 1"
    )


def select_generation_mappings(dialect: Dialect) -> str:
    """Return the query of closed generations with the partitions that they have changes for."""
    current, past = dialect.name(CURRENT_MAPPINGS), dialect.name(PAST_MAPPINGS)
    contents, closed = dialect.name(CONTENTS_VIEW), dialect.name(genhistory.name)
    concerned = (
        f"select m.publication_number, c.generation, m.partition_id from {current} m join {contents} c "
        "on c.tablenick = m.tablenick and c.rowguid = m.rowguid "
        f"union all select publication_number, generation, partition_id from {past}"
    )
    own = f"select h.generation from {closed} h where h.nickname = (select nickname from {dialect.name(replinfo.name)})"
    return (
        f"select publication_number, generation, partition_id, count(*) as changecount from ({concerned}) b "
        f"where generation in ({own}) group by publication_number, generation, partition_id"
    )
