"""Metadata that an earlier build made get the tables and columns of this one when they are used."""

from __future__ import annotations

from builders.merged_databases import PUBLICATION, Member, Merge, ServerMember


def forget_what_is_new(*members: Member) -> None:
    for member in members:
        prefix = "rowtide_merge." if isinstance(member, ServerMember) else ""
        member.execute(
            f"drop table {prefix}sysmergeschemachange",
            f"alter table {prefix}sysmergesubscriptions drop column schemaversion",
            f"alter table {prefix}sysmergepublications drop column replicate_ddl",
        )


def test_metadata_of_an_earlier_build_are_completed(merged: Merge) -> None:
    merged.begin("create table item (id integer primary key, name text)", item={})
    forget_what_is_new(merged.hub, merged.subscribers[0])
    merged.hub.execute("insert into item (id, name) values (1, 'a')")
    assert merged.sync().download.total.inserts == 1

    forget_what_is_new(merged.hub)
    assert {row.publication for row in merged.merge.status()} == {PUBLICATION}
