"""Metadata that an earlier build made get the tables and columns of this one when they are used."""

from __future__ import annotations

from builders.merge.merged_databases import PUBLICATION, Member, Merge, ServerMember
from rowtide.merge.documented.names import RENAMED, view_names


def forget_what_is_new(*members: Member) -> None:
    """Let the metadata be those of the first build that stored them."""
    for member in members:
        prefix = "rowtide_merge." if isinstance(member, ServerMember) else ""
        names = (*view_names(), *(() if prefix else ("MSmerge_form",)))
        drops = [f'drop view if exists {prefix}"{name}"{" cascade" * bool(prefix)}' for name in names]
        renames = [f'alter table {prefix}"{new}" rename to "{old}"' for old, new in RENAMED.items()]
        member.execute(
            *drops,
            *renames,
            f"drop table {prefix}sysmergeschemachange",
            f"alter table {prefix}sysmergesubscriptions drop column schemaversion",
            f"alter table {prefix}sysmergepublications drop column replicate_ddl",
            *(["comment on schema rowtide_merge is null"] if prefix else []),
        )


def test_metadata_of_an_earlier_build_are_completed(merged: Merge) -> None:
    merged.begin("create table item (id integer primary key, name text)", item={})
    forget_what_is_new(merged.hub, merged.subscribers[0])
    merged.hub.execute("insert into item (id, name) values (1, 'a')")
    assert merged.sync().download.total.inserts == 1

    forget_what_is_new(merged.hub)
    assert {row.publication for row in merged.merge.status()} == {PUBLICATION}
