"""Articles, and what the log shows of their tables, to begin a test with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pyarrow as pa

from builders.capture import capture_instances
from builders.log.log_stores import NOW
from rowtide.core.operations import Operation
from rowtide.core.records import RECORD
from rowtide.core.tables import BeforeImages, ImageKind, TableShape
from rowtide.databases.source_table import SourceTable
from rowtide.replication.articles.articles import Article, define_article
from rowtide.replication.articles.call_formats import Command, KeyUpdates, parse_command
from rowtide.replication.articles.requests import ArticleRequest

ARTICLE_ID = "1f2e3d4c-5b6a-4988-8776-655443322110"
ANOTHER_ID = "99887766-5544-4332-9110-ffeeddccbbaa"
Image = Sequence[str | None]


def commands(insert: str = "CALL", update: str = "SCALL", delete: str = "CALL") -> dict[Operation, Command]:
    """Return what users wrote for each operation; the defaults are those of articles."""
    texts = {Operation.INSERT: insert, Operation.UPDATE: update, Operation.DELETE: delete}
    return {operation: parse_command(operation, text) for operation, text in texts.items()}


def article(
    table: SourceTable | None = None,
    *,
    insert: str = "CALL",
    update: str = "SCALL",
    delete: str = "CALL",
    columns: tuple[str, ...] | None = None,
    before_images: BeforeImages | None = None,
    article_id: str = ARTICLE_ID,
    taken: Iterable[str] = (),
    where: str | None = None,
    key_updates: KeyUpdates = KeyUpdates.UPDATE,
) -> Article:
    request = ArticleRequest(
        columns=columns,
        commands=commands(insert, update, delete),
        before_images=before_images,
        where=where,
        key_updates=key_updates,
    )
    return define_article(table or capture_instances.source_table(), "shop", request, article_id, taken)


def shape_of(table: SourceTable, identity: ImageKind = ImageKind.FULL) -> TableShape:
    """Return a table as the log shows it to readers that know all of its columns by their numbers."""
    unnumbered = capture_instances.shape_of(table, identity)
    pairs = zip(unnumbered.columns, table.columns, strict=True)
    return replace(unnumbered, columns=tuple(replace(shown, number=column.number) for shown, column in pairs))


def change(
    operation: Operation,
    *,
    before: Image | None = None,
    after: Image | None = None,
    image: ImageKind | None = None,
    absent: Iterable[int] = (),
    lsn: int = 500,
    seqval: int = 1,
) -> pa.Table:
    """Return one log record; `absent` are the places that `after` lacks, `image` is full where there is a `before`."""
    kind = image if image is not None else ImageKind.NONE if before is None else ImageKind.FULL
    bits = sum(1 << place for place in absent)
    row = {
        "commit_lsn": lsn,
        "commit_time": NOW,
        "xid": 700,
        "origin": None,
        "seqval": seqval,
        "operation": int(operation),
        "table_id": 1,
        "image": int(kind),
        "before": before,
        "after": after,
        "absent": bits.to_bytes((len(after or ()) + 7) // 8, "little") if bits else None,
        "payload": None,
    }
    return pa.Table.from_pylist([row], schema=RECORD)
