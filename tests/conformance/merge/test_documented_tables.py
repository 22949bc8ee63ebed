"""How merge replication tracks changes, as SQL Server's documentation says it, sentence by sentence.

Each test quotes the sentences that it checks. Rows are seen at once, without an agent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from builders.commands.command_lines import rowtide
from builders.merge.merged_databases import PUBLICATION, FileMember, Member, Merge, ServerMember
from fixtures.merged import PARAMETERS, open_members
from rowtide.merge.api import MergeReplication
from rowtide.merge.articles import Partition, PartitionOptions

ITEM = "create table item (id integer primary key, name varchar(20))"
CUSTOMER = "create table customer (id integer primary key, region varchar(10), name varchar(20))"
ORDERS = "create table orders (id integer primary key, customer_id integer references customer (id), note varchar(20))"
FOLLOWS = "orders.customer_id = customer.id"
COLUMNS = {
    "MSmerge_contents": "tablenick rowguid generation partchangegen lineage colvl marker logical_record_parent_rowguid "
    "logical_record_lineage logical_relation_change_gen",
    "MSmerge_tombstone": "rowguid tablenick type lineage generation logical_record_parent_rowguid "
    "logical_record_lineage",
    "MSmerge_genhistory": "guidsrc pubid generation art_nick nicknames coldate genstatus changecount",
    "MSmerge_partition_groups": "partition_id publication_number maxgen_whenadded using_partition_groups HOST_NAME_FN",
    "MSmerge_current_partition_mappings": "publication_number tablenick rowguid partition_id",
    "MSmerge_past_partition_mappings": "publication_number tablenick rowguid partition_id generation reason",
    "MSmerge_generation_partition_mappings": "publication_number generation partition_id changecount",
    "sysmergesubscriptions": "subscriber_server db_name pubid datasource_type subid replnickname replicastate status "
    "subscriber_type subscription_type sync_type description priority recgen recguid sentgen sentguid schemaversion "
    "schemaguid last_validated attempted_validate last_sync_date last_sync_status last_sync_summary "
    "metadatacleanuptime partition_id cleanedup_unsent_changes replica_version last_makegeneration_datetime",
    "sysmergearticles": "name type objid sync_objid view_type artid pre_creation_command pubid nickname "
    "column_tracking status conflict_table article_resolver ins_conflict_proc insert_proc update_proc select_proc "
    "metadata_select_proc delete_proc schema_option destination_object destination_owner resolver_clsid "
    "subset_filterclause missing_col_count missing_cols excluded_cols columns deleted_cols resolver_info "
    "view_sel_proc gen_cur vertical_partition identity_support before_image_objid before_view_objid "
    "verify_resolver_signature allow_interactive_resolver fast_multicol_updateproc check_permissions "
    "maxversion_at_cleanup processing_order upload_options published_in_tran_pub lightweight delete_tracking "
    "compensate_for_errors pub_range range threshold stream_blob_columns preserve_rowguidcol",
    "sysmergepublications": "publisher publisher_db name retention retention_period_unit publication_type pubid "
    "parentid sync_mode centralized_conflicts decentralized_conflicts snapshot_ready dynamic_filters "
    "conflict_retention keep_before_values validate_subscriber_info backward_comp_level use_partition_groups "
    "dynamic_filters_function_list partition_id_eval_proc publication_number replicate_ddl "
    "allow_web_synchronization allow_partition_realignment generation_leveling_threshold "
    "automatic_reinitialization_policy",
    "sysmergesubsetfilters": "filtername join_filterid pubid artid art_nickname join_articlename join_nickname "
    "join_unique_key expand_proc join_filterclause filter_type",
}
"""The columns that the documents of each table list."""
MAPPINGS = [name for name in COLUMNS if name.endswith("_partition_mappings")]
NORTH, SOUTH = Partition("north"), Partition("south")
Rows = list[dict[str, Any]]


@pytest.fixture(params=PARAMETERS)
def merged(request: pytest.FixtureRequest) -> Iterator[Merge]:
    """A hub and two subscribers: all have `item`; one has the customers of the north, one of the south."""
    with ExitStack() as opened:
        members = open_members(request, opened, request.param)
        merged = Merge(members[0], members[1:])
        merged.hub.execute(ITEM, CUSTOMER, ORDERS, "insert into customer values (1, 'north', 'a'), (2, 'south', 'b')")
        merged.hub.execute("insert into orders values (10, 1, 'n'), (20, 2, 's')", "insert into item values (1, 'i')")
        merged.merge.add_publication(PUBLICATION)
        merged.merge.add_article(PUBLICATION, "item")
        merged.merge.add_article(PUBLICATION, "customer", where="region = host_name()")
        merged.merge.add_article(PUBLICATION, "orders")
        merged.merge.add_filter(PUBLICATION, "orders", "customer", FOLLOWS)
        for subscriber, partition in zip(merged.subscribers, (NORTH, SOUTH), strict=True):
            merged.merge.add_subscription(PUBLICATION, subscriber.url, partition=partition)
        yield merged


def read(member: Member, table: str) -> Rows:
    """Return the rows of a documented table."""
    return [dict(row) for row in MergeReplication(member.url).read_table(table).rows]


def of_row(member: Member, table: str, rowguid: str) -> Rows:
    return [row for row in read(member, table) if row["rowguid"] == rowguid]


def regions(merged: Merge, table: str, rowguid: str) -> list[str]:
    """Return the partitions that a mapping table has for a row, by their value of host_name()."""
    groups = {row["partition_id"]: row["HOST_NAME_FN"] for row in read(merged.hub, "MSmerge_partition_groups")}
    return sorted(groups[row["partition_id"]] for row in of_row(merged.hub, table, rowguid))


def test_tables_have_the_documented_columns(merged: Merge) -> None:
    merged.hub.execute("update item set name = 'logged'")
    for member in merged.members[:2]:
        for table, columns in COLUMNS.items():
            found = MergeReplication(member.url).read_table(table).columns
            assert [column for column in columns.split() if column not in found] == [], table
            if isinstance(member, ServerMember) or table not in MAPPINGS:
                # What any client sees.
                schema = "rowtide_merge." if isinstance(member, ServerMember) else ""
                names = ", ".join(f'"{column}"' for column in columns.split())
                member.execute(f'select {names} from {schema}"{table}"')


def test_changes_are_tracked(merged: Merge) -> None:
    for member in merged.members[:2]:
        _insert_and_update(member)
        _delete(member)
    _partitions(merged)
    _insert_to_partition(merged)
    _move(merged)
    _delete_from_partition(merged)
    _nodes(merged)


def _insert_and_update(member: Member) -> None:
    # "Merge replication uses these triggers and system tables: MSmerge_ins_<GUID>, MSmerge_upd_<GUID>,
    # MSmerge_del_<GUID>; MSmerge_contents, MSmerge_tombstone, MSmerge_genhistory."
    nickname = next(row["nickname"] for row in read(member, "sysmergearticles") if row["name"] == "item")
    found = (
        "select name from sqlite_schema where type = 'trigger'"
        if isinstance(member, FileMember)
        else "select tgname from pg_trigger"
    )
    triggers = {name for (name,) in member.execute(found)}
    assert {f"MSmerge_{kind}_{nickname}" for kind in ("ins", "upd", "del")} <= triggers
    # "When an insert or update occurs, the trigger fires, and a row is inserted into MSmerge_contents. The column
    # rowguid contains the GUID for the inserted or updated row."
    assert read(member, "MSmerge_contents") == []
    member.execute("insert into item (id, name) values (7, 'new')", "update item set name = 'changed' where id = 1")
    both = {member.rowguid("item", 1), member.rowguid("item", 7)}
    contents = read(member, "MSmerge_contents")
    assert {(row["tablenick"], row["rowguid"]) for row in contents} == {(nickname, rowguid) for rowguid in both}
    # "If subsequent updates occur, the row in MSmerge_contents is updated to reflect this."
    member.execute("update item set name = 'again' where id = 7")
    assert len(read(member, "MSmerge_contents")) == len(contents)
    # "Subsequent changes are added to one or more open generations."
    (open_one,) = [row for row in read(member, "MSmerge_genhistory") if row["genstatus"] == 0]
    assert {row["generation"] for row in read(member, "MSmerge_contents")} == {open_one["generation"]}
    assert (open_one["art_nick"], open_one["changecount"], open_one["guidsrc"]) == (nickname, 2, None)


def _delete(member: Member) -> None:
    # "When a delete occurs, a row is inserted into MSmerge_tombstone. The column rowguid contains the GUID for the
    # deleted row."
    rowguid = member.rowguid("item", 7)
    member.execute("delete from item where id = 7")
    (buried,) = of_row(member, "MSmerge_tombstone", rowguid)
    assert buried["type"] == 1
    # "If the deleted row is referenced in MSmerge_contents, the row is deleted from MSmerge_contents."
    assert of_row(member, "MSmerge_contents", rowguid) == []


def _partitions(merged: Merge) -> None:
    # "MSmerge_partition_groups contains one row for each partition defined in a publication. Partitions can be defined
    # explicitly, or created automatically when a Subscriber synchronizes that requires a partition without an entry."
    merged.merge.add_partition(PUBLICATION, Partition("east"))
    groups = {row["HOST_NAME_FN"]: row for row in read(merged.hub, "MSmerge_partition_groups")}
    assert {name: bool(row["is_explicit"]) for name, row in groups.items()} == {
        "north": False,
        "south": False,
        "east": True,
    }
    (publication,) = read(merged.hub, "sysmergepublications")
    assert {row["publication_number"] for row in groups.values()} == {publication["publication_number"]}
    assert (publication["dynamic_filters"], publication["publication_type"]) == (1, 1)
    (join,) = read(merged.hub, "sysmergesubsetfilters")
    assert (join["filtername"], join["join_filterclause"]) == ("orders_customer", FOLLOWS)


def _insert_to_partition(merged: Merge) -> None:
    # "When an insert occurs, in addition to data in MSmerge_contents, a partition mapping is added in
    # MSmerge_current_partition_mappings for each partition to which the row belongs."
    hub = merged.hub
    hub.execute("insert into customer (id, region, name) values (3, 'south', 'c'), (4, 'nowhere', 'd')")
    hub.execute("insert into orders (id, customer_id, note) values (30, 3, 'x')")
    for table, key, expected in (("customer", 3, ["south"]), ("orders", 30, ["south"]), ("customer", 4, [])):
        rowguid = hub.rowguid(table, key)
        assert len(of_row(hub, "MSmerge_contents", rowguid)) == 1
        assert regions(merged, "MSmerge_current_partition_mappings", rowguid) == expected
        assert regions(merged, "MSmerge_past_partition_mappings", rowguid) == []
    # "When an update occurs, if a partition mapping does not exist, one is added."
    rowguid = hub.rowguid("customer", 2)
    assert regions(merged, "MSmerge_current_partition_mappings", rowguid) == []
    hub.execute("update customer set name = 'B' where id = 2")
    assert regions(merged, "MSmerge_current_partition_mappings", rowguid) == ["south"]


def _move(merged: Merge) -> None:
    # "If the update resulted in a row moving from one partition to another, a row is updated in
    # MSmerge_current_partition_mappings and a row is added to MSmerge_past_partition_mappings." So it is for "related
    # rows in other tables".
    hub = merged.hub
    hub.execute("update customer set region = 'south' where id = 1", "update orders set note = 'n2' where id = 10")
    for table, key in (("customer", 1), ("orders", 10)):
        rowguid = hub.rowguid(table, key)
        assert regions(merged, "MSmerge_current_partition_mappings", rowguid) == ["south"]
        assert regions(merged, "MSmerge_past_partition_mappings", rowguid) == ["north"]
        (past,) = of_row(hub, "MSmerge_past_partition_mappings", rowguid)
        assert past["generation"] == of_row(hub, "MSmerge_contents", rowguid)[0]["generation"]


def _delete_from_partition(merged: Merge) -> None:
    # "When a delete occurs, in addition to a row in MSmerge_tombstone, a row is deleted from
    # MSmerge_current_partition_mappings and a row is added to MSmerge_past_partition_mappings."
    hub = merged.hub
    rowguid = hub.rowguid("orders", 20)
    hub.execute("delete from orders where id = 20")
    assert len(of_row(hub, "MSmerge_tombstone", rowguid)) == 1
    assert regions(merged, "MSmerge_current_partition_mappings", rowguid) == []
    assert regions(merged, "MSmerge_past_partition_mappings", rowguid) == ["south"]
    # Once all subscribers of the partition have been told, nothing is past any more.
    merged.settle()
    assert read(hub, "MSmerge_past_partition_mappings") == []
    assert merged.subscribers[0].rows("customer", "id") == []
    assert merged.subscribers[1].rows("orders", "id") == [(10,), (30,)]


def test_rows_of_all_publications_and_partitions_are_listed(merged: Merge) -> None:
    # "If you have more than one publication in a publication database, MSmerge_contents contains rows for articles from
    # all publications."
    hub = merged.hub
    hub.execute("create table visit (id integer primary key, region varchar(10))")
    merged.merge.add_publication("visits")
    merged.merge.add_article("visits", "visit", where="region = host_name() or region = 'all'")
    merged.merge.add_partition("visits", NORTH)
    merged.merge.add_partition("visits", SOUTH)
    hub.execute("insert into visit (id, region) values (1, 'all')", "update item set name = 'new' where id = 1")
    rows = {hub.rowguid("visit", 1), hub.rowguid("item", 1)}
    assert {row["rowguid"] for row in read(hub, "MSmerge_contents")} == rows
    # "For example, if a row in a user table belongs to two partitions, and the row is updated, one row is inserted in
    # MSmerge_contents to reflect the update, and two rows are inserted in MSmerge_current_partition_mappings."
    rowguid = hub.rowguid("visit", 1)
    assert regions(merged, "MSmerge_current_partition_mappings", rowguid) == ["north", "south"]
    # "This table contains one row for each unique combination of rows in MSmerge_genhistory and
    # MSmerge_partition_groups", for which the generation has changes.
    made = merged.merge.make_generation()
    assert made is not None
    mappings = [row for row in read(hub, "MSmerge_generation_partition_mappings") if row["changecount"]]
    groups = {row["partition_id"]: row["HOST_NAME_FN"] for row in read(hub, "MSmerge_partition_groups")}
    assert sorted(groups[row["partition_id"]] for row in mappings) == ["north", "south"]
    assert {row["generation"] for row in mappings} == {made.generation}


@pytest.mark.exhaustive
def test_partitions_of_one_subscriber_have_no_mappings(merged: Merge) -> None:
    # "If nonoverlapping partitions with a single subscription per partition (a value of 3 for @partition_options) are
    # used, MSmerge_current_partition_mappings and MSmerge_past_partition_mappings are not used."
    hub = merged.hub
    hub.execute("create table visit (id integer primary key, region varchar(10))")
    merged.merge.add_publication("own")
    options = PartitionOptions.ONE_SUBSCRIBER
    merged.merge.add_article("own", "visit", where="region = host_name()", partition_options=options)
    merged.merge.add_partition("own", Partition("north"))
    hub.execute("insert into visit (id, region) values (1, 'north')")
    assert len(of_row(hub, "MSmerge_contents", hub.rowguid("visit", 1))) == 1
    assert of_row(hub, "MSmerge_current_partition_mappings", hub.rowguid("visit", 1)) == []


def _nodes(merged: Merge) -> None:
    # "In the publication database, sysmergesubscriptions contains one row for the Publisher and one row for each
    # Subscriber. In a subscription database, this table typically contains a row for the Subscriber and a row for the
    # Publisher."
    at_hub = {row["subid"]: row for row in read(merged.hub, "sysmergesubscriptions")}
    (publication,) = read(merged.hub, "sysmergepublications")
    assert len(at_hub) == 3
    assert at_hub[publication["pubid"]]["priority"] == 100
    for subscriber in merged.subscribers:
        own = {row["subid"]: row for row in read(subscriber, "sysmergesubscriptions")}
        assert len(own) == 2
        assert publication["pubid"] in own
        (subid,) = set(own) - {publication["pubid"]}
        # "A record of the last generations of changes that a node has sent and received."
        assert own[subid]["replnickname"] == at_hub[subid]["replnickname"]
        assert own[subid]["recgen"] == at_hub[subid]["sentgen"] > 0


def test_changes_are_closed_enumerated_and_judged(merged: Merge) -> None:
    merged.settle(1)
    _close(merged)
    _enumerate(merged)
    _judge(merged)


def _close(merged: Merge) -> None:
    hub = merged.hub
    hub.execute("update customer set name = 'A' where id = 1")
    opened = next(row for row in read(hub, "MSmerge_genhistory") if row["genstatus"] == 0)
    assert read(hub, "MSmerge_generation_partition_mappings") == []
    # "sp_MSmakegeneration closes all open generations referenced in MSmerge_genhistory (closed generations have a value
    # of 1 or 2 in the genstatus column)."
    made = merged.merge.make_generation()
    assert made is not None
    (closed,) = [row for row in read(hub, "MSmerge_genhistory") if row["guidsrc"] == made.guidsrc]
    assert made.generation == closed["generation"] == opened["generation"]
    assert (closed["genstatus"], closed["changecount"], closed["art_nick"]) == (1, 1, opened["art_nick"])
    assert {row["genstatus"] for row in read(hub, "MSmerge_genhistory")} == {1, 2}
    # "If a generation contains one or more changes that are relevant to a partition, a row is inserted into
    # MSmerge_generation_partition_mappings. If a generation does not contain changes relevant to a partition, a row is
    # not inserted."
    (mapping,) = read(hub, "MSmerge_generation_partition_mappings")
    groups = {row["partition_id"]: row["HOST_NAME_FN"] for row in read(hub, "MSmerge_partition_groups")}
    assert (groups[mapping["partition_id"]], mapping["changecount"]) == ("north", 1)
    assert (mapping["generation"], mapping["publication_number"]) == (made.generation, 1)
    # What is closed stays as it is.
    assert merged.merge.make_generation() == made


def _enumerate(merged: Merge) -> None:
    # "... and changes are not enumerated for any Subscriber that receives that partition."
    north, south = (subscriber.url for subscriber in merged.subscribers)
    assert merged.merge.enum_changes(PUBLICATION, south) == ()
    # "For filtered tables, MSmerge_generation_partition_mappings is joined to MSmerge_current_partition_mappings and
    # MSmerge_contents, to determine which changes are relevant to the partition that the Subscriber receives."
    (change,) = merged.merge.enum_changes(PUBLICATION, north)
    generation = of_row(merged.hub, "MSmerge_contents", change.rowguid)[0]["generation"]
    assert (change.article, change.change, change.generation) == ("customer", "upsert", generation)
    # "The sentgen for the Subscriber (stored in the publication database) and the recgen (stored in the subscription
    # database) are compared. If the values are the same, changes are enumerated from the next generation. If they are
    # not, the lower of the two values is used, to ensure that all changes are sent."
    merged.sync(0)
    assert merged.merge.enum_changes(PUBLICATION, north) == ()
    _set_back(merged.subscribers[0], generation - 1)
    (repeated,) = merged.merge.enum_changes(PUBLICATION, north)
    assert repeated == change
    # "For nonfiltered tables, all changes contained in generations after sentgen or recgen are enumerated."
    merged.hub.execute("update item set name = 'j' where id = 1", "delete from orders where id = 20")
    listed = {subscriber: merged.merge.enum_changes(PUBLICATION, subscriber) for subscriber in (north, south)}
    kinds = {subscriber: sorted((each.article, each.change) for each in found) for subscriber, found in listed.items()}
    assert kinds == {
        north: [("customer", "upsert"), ("item", "upsert")],
        south: [("item", "upsert"), ("orders", "delete")],
    }
    # A row that moves leaves one partition, with its children, and enters another.
    merged.hub.execute("update customer set region = 'south' where id = 1")
    moved = {each.change for each in merged.merge.enum_changes(PUBLICATION, north) if each.article != "item"}
    assert moved == {"leave"}
    summary = merged.sync(1)
    assert summary.download.total.moved == len(listed[south]) + 2


def _set_back(member: Member, generation: int) -> None:
    prefix = "" if isinstance(member, FileMember) else "rowtide_merge."
    member.execute_as_agent(f'update {prefix}"sysmerge_stored_subscriptions" set recgen = {generation}')


def _judge(merged: Merge) -> None:
    # "sp_MSgetmetadata is called to determine whether a change should be applied as an insert, update, or delete. At
    # this point, conflict detection is performed."
    merged.settle()
    hub, (north, south) = merged.hub, merged.subscribers
    hub.execute(
        "insert into item (id, name) values (5, 'five'), (6, 'six'), (7, 'seven')",
    )
    merged.settle(1)
    hub.execute("insert into item (id, name) values (8, 'eight')", "update item set name = 'V' where id = 5")
    rowguids = {key: hub.rowguid("item", key) for key in (5, 6, 7, 8)}
    hub.execute("delete from item where id = 6", "update item set name = 'VII' where id = 7")
    north.execute("update item set name = 'own' where id = 7")
    asked = [rowguids[key] for key in sorted(rowguids)]
    found = merged.merge.get_metadata(PUBLICATION, north.url, "item", asked)
    assert {row.rowguid: row.applied_as for row in found} == dict(
        zip(asked, ("update", "delete", "conflict: update-update", "insert"), strict=True)
    )
    merged.settle()
    found = merged.merge.get_metadata(PUBLICATION, south.url, "item", asked, upload=True)
    assert {row.applied_as for row in found} == {"nothing"}


def test_all_tables_that_the_page_lists_are_read(merged: Merge) -> None:
    merged.hub.execute("update item set name = 'hub'")
    merged.subscribers[0].execute("update item set name = 'device'")
    merged.settle(2)
    page = Path("docs/reference/merge-names.md").read_text()
    listed = page.partition("what differs from SQL Server's")[2].partition("Tables without a counterpart")[0]
    names = re.findall(r"`((?:MSmerge|sysmerge)\w+)`", "".join(re.findall(r"^\|([^|]*)\|", listed, re.MULTILINE)))
    assert {"MSmerge_replinfo", "MSmerge_contents", "MSmerge_identity_range"} <= set(names)
    for member in merged.members:
        found = {name: MergeReplication(member.url).read_table(name.lower()) for name in names}
        assert all(table.columns for table in found.values())
        assert [row["nickname"] for row in found["MSmerge_replinfo"].rows] != []
    ((conflict,), history) = (read(merged.hub, name) for name in ("MSmerge_conflicts_info", "MSmerge_sessions"))
    assert (conflict["article"], len(history)) == ("item", 4)
    assert rowtide("merge", "table", "MSmerge_replinfo", "--db", merged.hub.url).code == 0
