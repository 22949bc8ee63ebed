"""The tables that SQL Server documents, as views with its columns (specification 3.6). Pure.

They show the present state, with changes that the agent has not applied yet: an open generation has the number that it
will probably be closed with. What merge has no counterpart for is null. The views cost nothing unless they are read.
"""

from __future__ import annotations

from collections.abc import Mapping

from rowtide.merge.definitions import (
    CONTENTS,
    TOMBSTONE,
    articles,
    genhistory,
    partition_groups,
    publications,
    replinfo,
    subscriptions,
)
from rowtide.merge.documented_views.dialect import (
    CONTENTS_VIEW,
    CURRENT_MAPPINGS,
    GENERATION_MAPPINGS,
    GENHISTORY_VIEW,
    PAST_MAPPINGS,
    TOMBSTONE_VIEW,
    DocumentedDialect,
    publication_number,
)

_NO_LOGICAL_RECORDS = "null as logical_record_parent_rowguid, null as logical_record_lineage"


def select_contents(dialect: DocumentedDialect) -> str:
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


def select_tombstone(dialect: DocumentedDialect) -> str:
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


def select_genhistory(dialect: DocumentedDialect) -> str:
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


def select_publications(dialect: DocumentedDialect) -> str:
    listed, self = dialect.name(publications.name), dialect.name(replinfo.name)
    of_publication = f"from {dialect.name(articles.name)} a where a.pubid = p.pubid and"
    clause = f"lower({dialect.text('a.definition', 'subset_filter')})"
    joins = dialect.elements("a.definition", "join_filters")
    is_filtered = f"({clause} is not null or exists (select 1 from {joins}))"
    is_dynamic = f"({clause} like '%host_name(%' or {clause} like '%suser_name(%')"
    columns = {
        "publisher": f"case when p.publisher = self.nickname then {dialect.of_publisher} end",
        "publisher_db": None,
        "name": "p.name",
        "retention": "p.retention",
        "retention_period_unit": "0",
        "publication_type": f"case when exists (select 1 {of_publication} {is_filtered}) then 1 else 0 end",
        "pubid": "p.pubid",
        "parentid": None,
        "sync_mode": "0",
        "allow_push": "1",
        "allow_pull": "0",
        "allow_anonymous": "0",
        "centralized_conflicts": "1",
        "decentralized_conflicts": "0",
        "snapshot_ready": "1",
        "dynamic_filters": f"case when exists (select 1 {of_publication} {is_dynamic}) then 1 else 0 end",
        "conflict_retention": "p.conflict_retention",
        "keep_before_values": "0",
        "validate_subscriber_info": None,
        "backward_comp_level": None,
        "max_concurrent_merge": "0",
        "max_concurrent_dynamic_snapshots": "0",
        "use_partition_groups": "1",
        "dynamic_filters_function_list": None,
        "partition_id_eval_proc": None,
        "publication_number": publication_number(dialect, "p.pubid"),
        "replicate_ddl": "p.replicate_ddl",
        "allow_web_synchronization": "0",
        "allow_partition_realignment": "p.allow_partition_realignment",
        "generation_leveling_threshold": "0",
        "automatic_reinitialization_policy": "0",
    }
    return f"select {_listed(columns)} from {listed} p cross join {self} self"


_UNUSED_OF_ARTICLES = (
    "ins_conflict_proc",
    "insert_proc",
    "update_proc",
    "select_proc",
    "metadata_select_proc",
    "delete_proc",
    "schema_option",
)


def select_articles(dialect: DocumentedDialect) -> str:
    return f"select {_listed(_article_columns(dialect))} from {dialect.name(articles.name)} a"


def _article_columns(dialect: DocumentedDialect) -> dict[str, str | None]:
    field, number = dialect.text, dialect.number
    document = "a.definition"
    return {
        "name": "a.name",
        "type": "10",
        "objid": dialect.object_id(field(document, "schema"), field(document, "table")),
        "sync_objid": None,
        "view_type": "0",
        "artid": None,
        "pre_creation_command": None,
        "pubid": "a.pubid",
        "nickname": "a.nickname",
        "column_tracking": "a.column_tracking",
        "status": "2",
        "conflict_table": "'MSmerge_conflicts_info'",
        "article_resolver": "a.article_resolver",
        **dict.fromkeys(_UNUSED_OF_ARTICLES),
        "destination_object": field(document, "table"),
        "destination_owner": field(document, "schema"),
        "resolver_clsid": None,
        "subset_filterclause": field(document, "subset_filter"),
        "missing_col_count": "0",
        "missing_cols": None,
        "excluded_cols": None,
        "columns": dialect.names_in(document, "columns"),
        "deleted_cols": None,
        "resolver_info": None,
        "view_sel_proc": None,
        "gen_cur": dialect.open_generation,
        "vertical_partition": f"coalesce({number(document, 'vertical_partition')}, 0)",
        "identity_support": f"case when {number(document, 'identity_range')} > 0 then 1 else 0 end",
        **dict.fromkeys(("before_image_objid", "before_view_objid", "verify_resolver_signature")),
        "allow_interactive_resolver": "0",
        "fast_multicol_updateproc": "1",
        "check_permissions": "0",
        "maxversion_at_cleanup": None,
        "processing_order": "a.processing_order",
        "upload_options": f"coalesce({number(document, 'subscriber_upload_options')}, 0)",
        "published_in_tran_pub": None,
        "lightweight": "0",
        "delete_tracking": "1",
        "compensate_for_errors": f"coalesce({number(document, 'compensate_for_errors')}, 0)",
        "pub_range": number(document, "publisher_identity_range"),
        "range": number(document, "identity_range"),
        "threshold": number(document, "threshold"),
        "stream_blob_columns": "0",
        "preserve_rowguidcol": "a.preserve_rowguidcol",
    }


def select_filters(dialect: DocumentedDialect) -> str:
    listed, element = dialect.name(articles.name), "e.value"
    columns = {
        "filtername": f"a.name || '_' || {dialect.text(element, 'parent')}",
        "join_filterid": None,
        "pubid": "a.pubid",
        "artid": None,
        "art_nickname": "a.nickname",
        "join_articlename": dialect.text(element, "parent"),
        "join_nickname": f"(select o.nickname from {listed} o where o.pubid = a.pubid and o.name = "
        f"{dialect.text(element, 'parent')})",
        "join_unique_key": f"coalesce({dialect.number(element, 'unique_key')}, 0)",
        "expand_proc": None,
        "join_filterclause": dialect.text(element, "condition"),
        "filter_type": f"coalesce({dialect.number(element, 'filter_type')}, 1)",
    }
    return f"select {_listed(columns)} from {listed} a cross join {dialect.elements('a.definition', 'join_filters')}"


def select_subscriptions(dialect: DocumentedDialect) -> str:
    """Return the query of a publication's nodes: its publisher, and the subscribers that this node knows."""
    listed, self = dialect.name(publications.name), dialect.name(replinfo.name)
    subscribed, here = dialect.name(subscriptions.name), "p.publisher = self.nickname"
    publisher = {
        "subscriber_server": f"case when {here} then {dialect.of_publisher} end",
        "subid": "p.pubid",
        "replnickname": "p.publisher",
        "priority": "100.0",
    }
    subscriber = _subscriber_columns(dialect, here)
    both = f"from {listed} p cross join {self} self"
    # The first half gives the columns of the second their types.
    return (
        f"select {_node_columns(dialect, subscriber, is_here=f'not {here}')} {both} "
        f"join {subscribed} s on s.pubid = p.pubid "
        f"union all select {_node_columns(dialect, publisher, is_here=here)} {both}"
    )


def _node_columns(dialect: DocumentedDialect, own: Mapping[str, str], *, is_here: str) -> str:
    """Return the columns of a node: those of its `own` kind, what this node knows of itself, and the rest as null."""
    closed = dialect.name(genhistory.name)
    last_made = f"(select max(h.coldate) from {closed} h where h.nickname = self.nickname)"
    values: dict[str, str | None] = {
        "subscriber_server": None,
        "db_name": None,
        "pubid": "p.pubid",
        "datasource_type": "0",
        "subid": None,
        "replnickname": None,
        "replicastate": None,
        "status": "1",
        "subscriber_type": "1",
        "subscription_type": "0",
        "sync_type": "1",
        "description": None,
        "priority": None,
        **dict.fromkeys(("recgen", "recguid", "sentgen", "sentguid")),
        "schemaversion": None,
        "schemaguid": None,
        "last_validated": None,
        "attempted_validate": None,
        **dict.fromkeys(("last_sync_date", "last_sync_status", "last_sync_summary")),
        "metadatacleanuptime": f"case when {is_here} then self.metadatacleanuptime end",
        "partition_id": None,
        "cleanedup_unsent_changes": "0",
        "replica_version": None,
        "last_makegeneration_datetime": f"case when {is_here} then {last_made} end",
    }
    return _listed(values | dict(own))


def _subscriber_columns(dialect: DocumentedDialect, here: str) -> dict[str, str]:
    closed = dialect.name(genhistory.name)

    def guid(nickname: str, generation: str) -> str:
        return f"(select h.guidsrc from {closed} h where h.nickname = {nickname} and h.generation = {generation})"

    return {
        "subscriber_server": "s.subscriber_server",
        "subid": "s.subid",
        "replnickname": f"case when {here} then s.replnickname else self.nickname end",
        "replicastate": "s.replicastate",
        "subscriber_type": "s.subscriber_type",
        "priority": "s.priority",
        "recgen": "s.recgen",
        "recguid": guid("s.replnickname", "s.recgen"),
        "sentgen": "s.sentgen",
        "sentguid": guid("self.nickname", "s.sentgen"),
        "last_validated": "s.last_validated",
        "attempted_validate": "s.attempted_validate",
        "schemaversion": "s.schemaversion",
        "schemaguid": "s.schemaguid",
        "last_sync_date": "s.last_sync_date",
        "last_sync_status": "s.last_sync_status",
        "last_sync_summary": "s.last_sync_summary",
        "partition_id": "s.partition_id",
    }


def _listed(columns: Mapping[str, str | None]) -> str:
    return ", ".join(f'{value or "null"} as "{name}"' for name, value in columns.items())


def select_partition_groups(dialect: DocumentedDialect) -> str:
    return (
        f"select g.partition_id, {publication_number(dialect, 'g.pubid')} as publication_number, "
        'null as maxgen_whenadded, 1 as using_partition_groups, g."HOST_NAME_FN", g."SUSER_NAME_FN", g.is_explicit '
        f"from {dialect.name(partition_groups.name)} g"
    )


def select_current_mappings(dialect: DocumentedDialect) -> str:
    number = publication_number(dialect, "m.pubid")
    return (
        f"select {number} as publication_number, m.tablenick, m.rowguid, m.partition_id from ({dialect.members}) m "
        "where m.is_in = 1 and m.is_changed = 1"
    )


def select_past_mappings(dialect: DocumentedDialect) -> str:
    """Return the query of rows that subscribers have and that are no longer in their partitions.

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


def select_generation_mappings(dialect: DocumentedDialect) -> str:
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


def documented_queries(dialect: DocumentedDialect) -> Mapping[str, str]:
    """Return the query of each documented table, in an order in which each reads only those before it."""
    return {
        CONTENTS_VIEW: select_contents(dialect),
        TOMBSTONE_VIEW: select_tombstone(dialect),
        GENHISTORY_VIEW: select_genhistory(dialect),
        "MSmerge_partition_groups": select_partition_groups(dialect),
        "sysmergepublications": select_publications(dialect),
        "sysmergearticles": select_articles(dialect),
        "sysmergesubsetfilters": select_filters(dialect),
        "sysmergesubscriptions": select_subscriptions(dialect),
        CURRENT_MAPPINGS: select_current_mappings(dialect),
        PAST_MAPPINGS: select_past_mappings(dialect),
        GENERATION_MAPPINGS: select_generation_mappings(dialect),
    }
