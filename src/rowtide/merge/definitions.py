"""The tables in which each node stores its publications, subscriptions and progress; the same on every database.

Where SQL Server documents a table, its name is that of a view with the documented columns, and the table below it has
`stored` in its name; see `documented_views`. On PostgreSQL they are in the schema `rowtide_merge`. The stored contents
and tombstones are created by each database's own statements.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import UUID

SCHEMA = "rowtide_merge"
"""The tables' schema, on databases that have schemas."""
LACKS_CHARACTERS = "rowtide_lacks_characters"
"""Key in a connection's `info`: whether the database's encoding lacks characters that rows of other nodes may have."""

CONTENTS = "MSmerge_stored_contents"
TOMBSTONE = "MSmerge_stored_tombstone"

metadata = MetaData()

_ROWGUID = Text().with_variant(UUID(as_uuid=False), "postgresql")

replinfo = Table(
    "MSmerge_replinfo",
    metadata,
    Column("nickname", BigInteger, primary_key=True, comment="this node's own"),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("place", Text, comment="server and database where this is the original; null: not known"),
    Column("purgedgen", BigInteger, nullable=False, server_default="0", comment="metadata up to it are gone"),
    Column("metadatacleanuptime", DateTime(timezone=True), nullable=False, server_default=func.now()),
)

publications = Table(
    "sysmerge_stored_publications",
    metadata,
    Column("pubid", Text, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("publisher", BigInteger, nullable=False, comment="the hub's nickname"),
    Column("retention", Integer, nullable=False, comment="days; 0: for ever"),
    Column("replicate_ddl", Integer, nullable=False, server_default="1", comment="0: new columns are not sent"),
    Column(
        "allow_partition_realignment",
        Integer,
        nullable=False,
        server_default="1",
        comment="0: rows that leave a partition stay at its subscribers",
    ),
    Column("conflict_retention", Integer, nullable=False, server_default="0", comment="days; 0: for ever"),
    Column(
        "run_as",
        Text,
        nullable=False,
        server_default="owner",
        comment="with whose rights the code of tables runs that this node writes: owner, agent",
    ),
)

articles = Table(
    "sysmerge_stored_articles",
    metadata,
    Column("pubid", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("nickname", Integer, nullable=False, comment="the table's, in all metadata"),
    Column("processing_order", Integer, nullable=False),
    Column("column_tracking", Boolean, nullable=False),
    Column("article_resolver", Text, nullable=False),
    Column("definition", Text, nullable=False, comment="JSON: all of it"),
    Column("purged_lineage", LargeBinary, nullable=False, comment="what rows without metadata include"),
    Column("preserve_rowguidcol", Boolean, nullable=False, comment="false: the column rowguid goes with the article"),
)

subscriptions = Table(
    "sysmerge_stored_subscriptions",
    metadata,
    Column("subid", Text, primary_key=True),
    Column("pubid", Text, nullable=False),
    Column("subscriber_server", Text, nullable=False, comment="its URL, without a password"),
    Column("replnickname", BigInteger, nullable=False, comment="of the other node"),
    Column("subscriber_type", Integer, nullable=False, comment="1 server, 2 client"),
    Column("priority", Float, nullable=False),
    Column("sentgen", BigInteger, nullable=False),
    Column("recgen", BigInteger, nullable=False),
    Column("replicastate", Text, nullable=False, comment="the mark of the last synchronisation"),
    Column("next_replicastate", Text, comment="the mark that the current one leaves"),
    Column("session", BigInteger, nullable=False),
    Column("settledgen", BigInteger, nullable=False, comment="metadata up to it are not needed for this subscription"),
    Column("waitinggen", BigInteger, comment="it is settled when the publisher has purged waitingpubgen"),
    Column("waitingpubgen", BigInteger),
    Column("partition_id", Integer, comment="of the subscriber; null where no article is filtered"),
    Column("last_sync_date", DateTime(timezone=True), comment="the earlier of the next two, where they were split"),
    Column("last_validated", DateTime(timezone=True), comment="when all rows were found equal"),
    Column("attempted_validate", DateTime(timezone=True)),
    Column("last_upload_date", DateTime(timezone=True)),
    Column("last_download_date", DateTime(timezone=True)),
    Column("last_sync_status", Integer, nullable=False, comment="0 waiting, 2 succeeded, 3 running, 6 failed"),
    Column("last_sync_summary", Text),
    Column("schemaversion", Integer, nullable=False, server_default="0", comment="of the last change followed"),
    Column("schemaguid", Text),
)

schema_changes = Table(
    "sysmergeschemachange",
    metadata,
    Column("pubid", Text, primary_key=True),
    Column("schemaversion", Integer, primary_key=True),
    Column("schemaguid", Text, nullable=False),
    Column("article_name", Text, nullable=False),
    Column("column_number", Integer, comment="of the article's; null: the article's own"),
    Column("schematype", Text, nullable=False),
    Column("schematext", Text, nullable=False),
    Column("schemastatus", Text, nullable=False, server_default="active", comment="skipped: left to subscribers"),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
)

genhistory = Table(
    "MSmerge_stored_genhistory",
    metadata,
    Column("nickname", BigInteger, primary_key=True, comment="of the node whose generation it is"),
    Column("generation", BigInteger, primary_key=True),
    Column("guidsrc", Text, nullable=False),
    Column("genstatus", Integer, nullable=False, comment="1 closed here, 2 received"),
    Column("snapshot", Text, comment="what a PostgreSQL node sees of its own transactions in it"),
    Column("coldate", DateTime(timezone=True), nullable=False, server_default=func.now()),
)

partition_groups = Table(
    "MSmerge_stored_partition_groups",
    metadata,
    Column("partition_id", Integer, primary_key=True, autoincrement=True),
    Column("pubid", Text, nullable=False),
    Column("HOST_NAME_FN", Text, comment="what host_name() is; null: no filter asks"),
    Column("SUSER_NAME_FN", Text, comment="what suser_name() is"),
    Column("is_explicit", Boolean, nullable=False, comment="it stays without a subscription"),
)

partition_mappings = Table(
    "MSmerge_stored_partition_mappings",
    metadata,
    Column("replnickname", BigInteger, primary_key=True, comment="of the subscriber that has the row"),
    Column("tablenick", Integer, primary_key=True),
    Column("rowguid", _ROWGUID, primary_key=True),
    Column("parent", _ROWGUID, comment="the row by which it has it, null by the article's own filter"),
    Column("generation", BigInteger, nullable=False, comment="in which it was first sent; 0: it came from there"),
    Column("is_leaving", Boolean, nullable=False, comment="it is in the partition no more, but may be there still"),
)
_is_leaving = partition_mappings.c.is_leaving
# By the subscriber neither finds anything: rows are to be looked up by the primary key, and the few that are leaving
# or have a parent not among all of a subscriber's.
Index(
    "MSmerge_current_partition_mappings_parent",
    partition_mappings.c.parent,
    text("(replnickname + 0)"),
)
Index(
    "MSmerge_current_partition_mappings_leaving",
    partition_mappings.c.tablenick,
    postgresql_where=_is_leaving,
    sqlite_where=_is_leaving,
)

conflicts_info = Table(
    "MSmerge_conflicts_info",
    metadata,
    Column("conflict_id", Text, primary_key=True, comment="of the row and both its versions: a repeat is known"),
    Column("pubid", Text, nullable=False),
    Column("article", Text, nullable=False),
    Column("tablenick", Integer, nullable=False),
    Column("rowguid", Text, nullable=False),
    Column("conflict_type", Integer, nullable=False),
    Column("origin_datasource", Text, nullable=False, comment="where the losing change was made"),
    Column("origin_datasource_id", BigInteger, nullable=False, comment="that node's nickname"),
    Column("reason_code", Text, nullable=False),
    Column("reason_text", Text, nullable=False),
    Column("losing_row", Text, comment="JSON: its columns and their values as texts; null for a delete"),
    Column("winning_row", Text, comment="in the same way"),
    Column("losing_lineage", LargeBinary, nullable=False, comment="what the losing version includes"),
    Column("parents", Text, comment="JSON: the rowguids of the rows that it references, by foreign key"),
    Column("losing_columns", Text, comment="JSON: names of those that the losing version changed; null: the whole row"),
    Column("settled_row", Text, comment="as losing_row: as it was left, JSON null: gone; null: as the winning row"),
    Column("replaced_row", Text, comment="in the same way: what gave way to the losing row when somebody chose that"),
    Column("resolved_with", Text, comment="the conflict_id of the parent that was resolved"),
    Column("MSrepl_create_time", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("resolved_time", DateTime(timezone=True), comment="when somebody changed the resolution"),
)

notes_metadata = MetaData()
"""Of a table that is made with its first row."""

conflict_notes = Table(
    "MSmerge_conflict_notes",
    notes_metadata,
    Column("note_id", Text, primary_key=True),
    Column("conflict_id", Text, nullable=False, index=True),
    Column("noted_at", DateTime(timezone=True), nullable=False),
    Column("noted_by", Text, nullable=False),
    Column("winner", Text, comment="of a decision: the side that was chosen"),
    Column("note", Text, comment="of a comment: what somebody wrote"),
)

identity_ranges = Table(
    "MSmerge_identity_range",
    metadata,
    Column("subid", Text, primary_key=True, comment="of the subscription; the publication's for its publisher"),
    Column("artid", Integer, primary_key=True, comment="the table's nickname"),
    Column("range_begin", BigInteger, nullable=False),
    Column("range_end", BigInteger, nullable=False, comment="included"),
    Column("next_range_begin", BigInteger, nullable=False, comment="of the secondary range"),
    Column("next_range_end", BigInteger, nullable=False),
    Column("is_pub_range", Integer, primary_key=True, comment="1: for the subscribers of the subscriber"),
    Column(
        "max_used", BigInteger, comment="the last number known to be used; of a publisher: the last given to a node"
    ),
    Column("is_own", Boolean, nullable=False, comment="this node's programs get numbers of it"),
)

retries = Table(
    "MSmerge_retries",
    metadata,
    Column("source", BigInteger, primary_key=True, comment="the nickname of the node that is asked again"),
    Column("tablenick", Integer, primary_key=True),
    Column("rowguid", Text, primary_key=True),
    Column("reason_code", Text, nullable=False),
    Column("reason_text", Text, nullable=False),
    Column("since", DateTime(timezone=True), nullable=False, server_default=func.now()),
)

snapshot_progress = Table(
    "MSsnapshotdeliveryprogress",
    metadata,
    Column("session_token", Text, primary_key=True, comment="of the snapshot that is being delivered"),
    Column("progress_token", Text, primary_key=True, comment="a file that has been"),
    Column("progress_timestamp", DateTime(timezone=True), nullable=False, server_default=func.now()),
)

row_hashes = Table(
    "MSmerge_row_hashes",
    metadata,
    Column("batch", Integer, primary_key=True, autoincrement=True),
    Column("tablenick", Integer, nullable=False),
    Column("columns", Text, nullable=False, comment="JSON: names of those that the hashes are of"),
    Column("entries", LargeBinary, nullable=False, comment="of each row 16 bytes of its rowguid, 8 of its hash"),
)

sessions = Table(
    "MSmerge_sessions",
    metadata,
    Column("session_id", Integer, primary_key=True, autoincrement=True),
    Column("subid", Text, nullable=False),
    Column("start_time", DateTime(timezone=True), nullable=False),
    Column("duration", Float, nullable=False, comment="seconds"),
    Column("upload_time", Float, nullable=False),
    Column("download_time", Float, nullable=False),
    Column("runstatus", Integer, nullable=False, comment="2 succeeded, 6 failed"),
    Column("message", Text),
)

article_history = Table(
    "MSmerge_articlehistory",
    metadata,
    Column("session_id", Integer, primary_key=True),
    Column("article", Text, primary_key=True),
    Column("phase", Integer, primary_key=True, comment="1 upload, 2 download"),
    Column("inserts", Integer, nullable=False),
    Column("updates", Integer, nullable=False),
    Column("deletes", Integer, nullable=False),
    Column("conflicts", Integer, nullable=False),
    Column("rows_retried", Integer, nullable=False),
    Column("duration", Float, nullable=False),
)

change_log = Table("MSmerge_log", MetaData(), Column("tablenick", Integer))
"""Users' changes since the log was last applied, as far as it is the same on every database."""

device_metadata = MetaData()
"""Apart from the tables that every node has: only a hub of devices that synchronise over HTTP has it, and it is made
with the first of them.
"""

devices = Table(
    "MSmerge_devices",
    device_metadata,
    Column("device_id", Text, primary_key=True, comment="what its code and its tokens begin with; no secret"),
    Column("name", Text, nullable=False, unique=True),
    Column("pubid", Text, nullable=False),
    Column("host_name", Text, comment="what host_name() is for it"),
    Column("suser_name", Text, comment="what suser_name() is for it"),
    Column("subid", Text, comment="of its subscription; null before its first synchronisation"),
    Column("code_digest", Text, comment="SHA-256 of the registration code, until a token made of it was used"),
    Column("code_expires", DateTime(timezone=True)),
    Column("next_digest", Text, comment="of the token that its code was exchanged for, until it is used"),
    Column("token_digest", Text, comment="SHA-256 of its token"),
    Column("former_digest", Text, comment="of the token before"),
    Column("former_expires", DateTime(timezone=True)),
    Column("claims_issued", DateTime(timezone=True), comment="iat of the token of a person that moved it last"),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("registered_at", DateTime(timezone=True)),
    Column("revoked_at", DateTime(timezone=True)),
    Column("last_contact", DateTime(timezone=True), comment="to the minute"),
    Column("client_version", Text),
    Column("refused", BigInteger, nullable=False, server_default="0", comment="requests with a wrong secret"),
)
