"""Partitions attached to a merged table after it was tracked: their rows count as inserts."""

from __future__ import annotations

from functools import partial

from sqlalchemy import Connection, text

from rowtide.databases.postgres.alterations import Alterations, execute_all
from rowtide.databases.postgres.catalogue import find_table
from rowtide.databases.postgres.clock import BSN
from rowtide.databases.postgres.quoting import quote_qualified
from rowtide.databases.source_table import TablePartition
from rowtide.merge.articles import ROWGUID, Article
from rowtide.merge.nodes.postgres.metadata.system_tables import CONTENTS, LOG
from rowtide.merge.nodes.postgres.tables.triggers import partition_trigger_names, track_partition
from rowtide.merge.versions.apply import Logged


def attach_partitions(alterations: Alterations, article: Article) -> bool:
    """Track the partitions that lack our triggers, with their rows as inserts; return whether there were any.

    Raises `LockNotObtained`.
    """
    return alterations.run(article.qualified_name, partial(_attach, article=article))


def _attach(connection: Connection, *, article: Article) -> bool:
    table = find_table(connection, f"{article.schema or article.place}.{article.table}")
    new = [part for part in table.row_holders if not _is_tracked(connection, article, part)]
    for part in new:
        name = quote_qualified(part.schema, part.name)
        # From now on no other session writes it, and what was written is seen.
        execute_all(connection, [f"lock table {name} in share row exclusive mode", *track_partition(article, part)])
        execute_all(connection, [_logging(article, name)])
    return bool(new)


def _is_tracked(connection: Connection, article: Article, part: TablePartition) -> bool:
    asked = text("select exists (select from pg_trigger where tgrelid = :part and tgname = any(:names))")
    listed = {"part": part.source_id, "names": list(partition_trigger_names(article))}
    return bool(connection.execute(asked, listed).scalar())


def _logging(article: Article, partition: str) -> str:
    """Return the statement that logs a partition's rows, without those inserted through the parent table."""
    row = f"m.tablenick = {article.nickname} and m.rowguid = n.{ROWGUID}"
    return (
        f"insert into {LOG} (tablenick, rowguid, kind, stamp) "
        f"select {article.nickname}, n.{ROWGUID}, {Logged.INSERTED.value}, (select {BSN}) from {partition} n "
        f"where not exists (select from {CONTENTS} m where {row}) and not exists (select from {LOG} m where {row})"
    )
