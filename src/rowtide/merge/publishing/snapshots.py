"""The initial rows of a subscriber, and its tables, which are created and filled with them.

They are read from the hub, or from files that were prepared for the subscribers of a partition (SQL Server: a dynamic
snapshot). The files are compressed JSON lines with SHA-256 sums: Parquet would need PyArrow on devices, 100 MB.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from enum import StrEnum
from itertools import compress, islice
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

from rowtide.core.errors import FileNotWritable
from rowtide.core.formats import StoredFormat, StoreFormat
from rowtide.core.values import frozen
from rowtide.merge import catalogue
from rowtide.merge.articles import (
    PUBLISHER_PRIORITY,
    Article,
    Partition,
    Publication,
    SubscriberType,
)
from rowtide.merge.errors.rows import CopiedRowRefused, RowsRefused
from rowtide.merge.errors.subscribing import SnapshotDamaged, SnapshotUnfit
from rowtide.merge.nodes.node import Node
from rowtide.merge.nodes.node_tables import TableDescription
from rowtide.merge.nodes.sending import Enumeration
from rowtide.merge.nodes.table_definitions import Omission
from rowtide.merge.partitions.belonging import PackedRowguids, RowguidSet, choose_parents
from rowtide.merge.partitions.filters import RowFilter
from rowtide.merge.partitions.partition_membership import (
    add_members,
    remove_all_members,
)
from rowtide.merge.publishing.vertical_partitions import restrict
from rowtide.merge.row_hashes import BATCH_ROWS, HashBatch, drop_hashes
from rowtide.merge.session.accepted_versions import accepted
from rowtide.merge.versions.changes import Row, Write

_NO_NODE = 0
"""The nickname of no node."""
SnapshotProgress = Callable[[str, int], None]
"""Called with an article and the number of its rows that are copied."""


class StartingRows(Protocol):
    """What articles' tables at a subscriber start with; see `SubscriberSnapshot`."""

    @property
    def articles(self) -> Sequence[Article]: ...

    @property
    def shared(self) -> Sequence[Article]: ...

    @property
    def prepared(self) -> Sequence[Article]: ...

    @property
    def new_articles(self) -> Sequence[Article]: ...

    def there(self, article: Article) -> Article: ...

    def rows(self, article: Article) -> Iterator[Sequence[tuple[str, Row]]]: ...

    def versions(self, article: Article, publisher: int) -> Iterator[Sequence[Write]]: ...

    def included(self, article: Article) -> bytes: ...


@frozen
class SubscriberSnapshot:
    """The rows that a subscriber starts with: all rows of the articles, or its partition of the filtered ones.

    `shared` are those whose tables it has from another publication, `prepared` those whose tables a program made there.
    """

    enumeration: Enumeration
    articles: Sequence[Article]
    filters: Mapping[int, RowFilter]
    shared: Sequence[Article] = ()
    subscriber_type: SubscriberType = SubscriberType.CLIENT
    hub_priority: float = PUBLISHER_PRIORITY
    prepared: Sequence[Article] = ()

    @property
    def new_articles(self) -> Sequence[Article]:
        """The articles whose tables the subscriber does not have."""
        return [article for article in self.articles if article not in (*self.shared, *self.prepared)]

    def there(self, article: Article) -> Article:
        """Return an article as the subscriber has it."""
        return article.at_subscriber(self.subscriber_type)

    def rows(self, article: Article) -> Iterator[Sequence[tuple[str, Row]]]:
        if article.is_upload_only:
            return iter(())
        return self.enumeration.rows(article, self.filters.get(article.nickname))

    def versions(self, article: Article, publisher: int) -> Iterator[Sequence[Write]]:
        """Yield the metadata to store for rows that have metadata at the hub, in batches.

        Each row keeps its own lineage: a change included in one row may not have reached another, because it waits at
        its node or was refused.
        """
        if article.is_upload_only or not self.there(article).is_tracked:
            return
        row_filter = self.filters.get(article.nickname)
        belonging = None
        # Where no row has metadata, as after a purge, nobody needs to know which rows belong.
        if row_filter is not None and any(self.enumeration.upserts(article, 0, _NO_NODE)):
            belonging = RowguidSet()
            for members in self.enumeration.members(row_filter):
                belonging.add([rowguid for rowguid, _ in members])
        for batch in self.enumeration.upserts(article, 0, _NO_NODE):
            there = batch
            if belonging is not None:
                there = [*compress(batch, belonging.find([change.rowguid for change in batch]))]
            yield [accepted(change, None, publisher, self.hub_priority)._replace(is_live=True) for change in there]

    def included(self, article: Article) -> bytes:
        """Return the lineage of rows without metadata."""
        return self.enumeration.included(article)

    def members(self) -> dict[Article, Iterable[tuple[str, str | None]]]:
        """Return the rowguids of the filtered articles' rows, each with its parent's."""
        following: dict[str, Sequence[str]] = {}
        found: dict[Article, PackedRowguids] = {}
        for article in self.articles:
            if article.is_filtered:
                packed = found[article] = PackedRowguids()
                for batch in self.enumeration.members(self.filters[article.nickname]):
                    packed.add([rowguid for rowguid, _ in batch])
                    following.update((rowguid, parents) for rowguid, parents in batch if parents)
        chosen = choose_parents(following)
        return {article: _LinkedRows(packed, chosen) for article, packed in found.items()}


@frozen
class _LinkedRows:
    rows: PackedRowguids
    parents: Mapping[str, str]

    def __iter__(self) -> Iterator[tuple[str, str | None]]:
        return ((rowguid, self.parents.get(rowguid)) for rowguid in self.rows)


@frozen
class FileSnapshot(SubscriberSnapshot):
    """The rows of a subscriber's file, for another file that is to be the same subscriber."""

    included_there: Mapping[int, bytes] = field(default_factory=dict)
    """By the article's nickname, without the generations of the file itself: the other one counts its own."""

    def included(self, article: Article) -> bytes:
        return self.included_there[article.nickname]


def store_memberships(
    hub: Node, subscriber: int, members: Mapping[Article, Iterable[tuple[str, str | None]]], generation: int
) -> None:
    """Store the subscriber's partition membership at the hub before it receives the rows. Idempotent."""
    with hub.transaction():
        remove_all_members(hub.connection, subscriber, members)
        for article, rows in members.items():
            add_members(hub.connection, subscriber, article, rows, generation)


@contextmanager
def copying(subscriber: Node) -> Iterator[None]:
    """Write what a subscription begins with in one transaction. Raises `CopiedRowRefused`."""
    try:
        with subscriber.transaction():
            yield
    except RowsRefused as error:
        raise CopiedRowRefused(error.table, error.code, error.reason) from error


def fill(
    hub: Node, subscriber: Node, publication: Publication, snapshot: SubscriberSnapshot, on_progress: SnapshotProgress
) -> Sequence[Omission]:
    """Create and fill all tables in the caller's transaction; later writes are tracked.

    Return what the tables do not have of the publisher's.
    """
    catalogue.put_publication(subscriber.connection, publication)
    return fill_articles(subscriber, publication, hub.tables.describe_all(snapshot.articles), snapshot, on_progress)


def fill_articles(
    subscriber: Node,
    publication: Publication,
    described: Mapping[Article, TableDescription],
    snapshot: StartingRows,
    on_progress: SnapshotProgress = lambda _article, _rows: None,
    *,
    present: Sequence[Article] = (),
) -> Sequence[Omission]:
    """Create and fill the tables of a snapshot's articles in the caller's transaction; later writes are tracked.

    All of them are `described`. Tables of `present` exist, and may be referenced. Return what the tables do not have of
    the publisher's.
    """
    articles = (*snapshot.articles, *present)
    restricted = [(article, restrict(article, described[article])) for article in articles]
    tables = [(article, published) for article, (published, _) in restricted]
    made = [unpublished for article, (_, unpublished) in restricted if article not in present]
    omissions = [omission for unpublished in made for omission in unpublished]
    there = (*snapshot.shared, *snapshot.prepared, *present)
    omissions += subscriber.tables.make(tables, present=there, refers_later=bool(present))
    subscriber.writer.defer_constraints()
    for article in snapshot.new_articles:
        _load(subscriber, article, snapshot, on_progress)
    for article in snapshot.shared:
        purged = catalogue.read_purged(subscriber.connection, article.nickname)
        put_at_subscriber(subscriber, publication, snapshot.there(article), purged)
    for article in snapshot.new_articles:
        # After the rows: a version is written to a row that is there (`is_live`).
        for versions in snapshot.versions(article, publication.publisher):
            subscriber.writer.write(article, versions)
        put_at_subscriber(subscriber, publication, snapshot.there(article), snapshot.included(article))
        subscriber.tables.track(snapshot.there(article))
    # Keys between new tables and those that were there, once both have their rows.
    if present:
        subscriber.tables.refer(tables, present=there)
    return omissions


def put_at_subscriber(subscriber: Node, publication: Publication, article: Article, purged_lineage: bytes) -> None:
    """Write an article at a subscriber, in the caller's transaction."""
    connection = subscriber.connection
    catalogue.put_article(
        connection, publication.pubid, article, purged_lineage=purged_lineage, preserve_rowguidcol=True
    )


def refill(
    subscriber: Node, pubid: str, publisher: int, snapshot: SubscriberSnapshot, on_progress: SnapshotProgress
) -> None:
    """Fill the tables again, in the caller's transaction; rows of upload-only articles stay with their changes."""
    articles = [article for article in snapshot.articles if not article.is_upload_only]
    for article in set(snapshot.articles) - set(articles):
        catalogue.set_definition(subscriber.connection, pubid, snapshot.there(article))
        subscriber.tables.track(snapshot.there(article))
    subscriber.writer.defer_constraints()
    # Articles are in the order of references: what refers is emptied first. Untracked, since these deletions are no
    # changes of the subscriber's own.
    for article in reversed(articles):
        subscriber.tables.untrack(article)
        subscriber.tables.clear(article)
    for article in articles:
        _load(subscriber, article, snapshot, on_progress)
    for article in articles:
        for versions in snapshot.versions(article, publisher):
            subscriber.writer.write(article, versions)
        catalogue.set_definition(subscriber.connection, pubid, snapshot.there(article))
        catalogue.set_purged(subscriber.connection, article.nickname, snapshot.included(article))
        subscriber.tables.track(snapshot.there(article))


def _load(subscriber: Node, article: Article, snapshot: StartingRows, on_progress: SnapshotProgress) -> None:
    """Fill an empty table, and store the hashes of its rows, in the caller's transaction."""
    batches = [HashBatch(article)]

    def told() -> Iterator[Sequence[tuple[str, Row]]]:
        rows = 0
        for batch in snapshot.rows(article):
            yield batch
            if len(batches[-1]) >= BATCH_ROWS:
                batches.append(HashBatch(article))
            batches[-1].add(batch)
            rows += len(batch)
            on_progress(article.name, rows)

    # The hashes are stored once the rows are loaded: until then the load has the connection.
    subscriber.tables.load(article, told())
    drop_hashes(subscriber.connection, article.nickname)
    for hashes in batches:
        hashes.put(subscriber.connection)


MANIFEST = "snapshot.json"
FORMAT = StoreFormat("merge snapshot", replacement="write it again by `rowtide merge snapshot`")
# A file is checked, decompressed and parsed as a whole in memory.
_FILE_ROWS = 20_000
_LEVEL = 5
"""Of compression: half of the time of the usual 9, and files a few hundredths larger."""
Line = list[Any]


class FileKind(StrEnum):
    """What the lines of a file are."""

    ROWS = "rows"
    """A rowguid, and the values of the article's columns."""
    VERSIONS = "versions"
    """A rowguid, lineage, last change and column changes in hexadecimal, and the values."""
    MEMBERS = "members"
    """A rowguid, and that of the row by which it is in the partition."""


@frozen
class SnapshotFile:
    """A file; `sha256` is that of its compressed bytes."""

    name: str
    article: str
    kind: FileKind
    rows: int
    sha256: str


@frozen
class PartitionSnapshot:
    """A prepared snapshot; `included` is the lineage of rows without metadata, by article, in hexadecimal.

    It has what the hub had up to `generation`; `taken` is a time in UTC, in ISO 8601. `partition` is None if no article
    is filtered.
    """

    folder: str
    token: str
    publication: str
    pubid: str
    publisher: int
    generation: int
    taken: str
    partition: Partition | None
    articles: tuple[Article, ...]
    included: Mapping[str, str]
    files: tuple[SnapshotFile, ...]

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(file.rows for file in self.files if file.kind is FileKind.ROWS)

    def lines(self, file: SnapshotFile) -> list[Line]:
        """Return the lines of a file. Raises `SnapshotDamaged`."""
        path = Path(self.folder, file.name)
        try:
            content = path.read_bytes()
        except OSError as error:
            raise SnapshotDamaged(str(path), error.strerror or str(error)) from error
        if hashlib.sha256(content).hexdigest() != file.sha256:
            raise SnapshotDamaged(str(path), "its contents are not those that were written")
        return [json.loads(line) for line in gzip.decompress(content).splitlines()]


def write_snapshot(
    folder: Path,
    publication: Publication,
    partition: Partition | None,
    snapshot: SubscriberSnapshot,
    on_progress: SnapshotProgress = lambda _article, _rows: None,
) -> PartitionSnapshot:
    """Write a snapshot; one that the folder has already is replaced when this one is complete.

    Raises `FileNotWritable`.
    """
    writing = _Writing(folder, uuid4().hex[:12], on_progress)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        files = [file for article in snapshot.articles for file in writing.files_of(article, snapshot)]
        files += [file for article, found in snapshot.members().items() for file in writing.members_of(article, found)]
        written = PartitionSnapshot(
            folder=str(folder),
            token=writing.token,
            publication=publication.name,
            pubid=publication.pubid,
            publisher=publication.publisher,
            generation=snapshot.enumeration.generation,
            taken=datetime.now(UTC).isoformat(timespec="seconds"),
            partition=partition,
            articles=tuple(snapshot.articles),
            included={each.name: snapshot.enumeration.included(each).hex() for each in snapshot.articles},
            files=tuple(files),
        )
        # The description comes last and replaces the earlier one at once: a reader finds one snapshot, whose files are
        # all there. Files have names of their own by the token, so that those of the earlier one stay until then.
        partial = folder / f".{MANIFEST}.partial"
        partial.write_text(json.dumps(_encoded(written), indent=1))
        partial.replace(folder / MANIFEST)
        for old in set(folder.glob("*.jsonl.gz")) - {folder / file.name for file in files}:
            old.unlink()
    except OSError as error:
        raise FileNotWritable(error.filename or str(folder), error.strerror or str(error)) from error
    return written


def read_snapshot(folder: Path) -> PartitionSnapshot:
    """Read the description of a snapshot. Raises `SnapshotUnfit`, `FormatNewer`, `FormatNotMigrated`."""
    try:
        found = json.loads((folder / MANIFEST).read_text())
    except OSError as error:
        raise SnapshotUnfit(str(folder), f"{MANIFEST}: {error.strerror or error}") from error
    except ValueError as error:
        raise SnapshotUnfit(str(folder), f"{MANIFEST} is not JSON: {error}") from error
    try:
        stored = StoredFormat(**found.pop("format"))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise SnapshotUnfit(str(folder), f"{MANIFEST} has no format") from error
    FORMAT.require_readable(str(folder), stored)
    partition, files = found.pop("partition"), found.pop("files")
    return PartitionSnapshot(
        folder=str(folder),
        partition=None if partition is None else Partition(**partition),
        articles=tuple(Article.decode(each) for each in found.pop("articles")),
        files=tuple(SnapshotFile(**{**each, "kind": FileKind(each["kind"])}) for each in files),
        **{each.name: found[each.name] for each in fields(PartitionSnapshot) if each.name in found},
    )


def _encoded(snapshot: PartitionSnapshot) -> dict[str, Any]:
    values = {each.name: getattr(snapshot, each.name) for each in fields(snapshot) if each.name != "folder"}
    partition = None if snapshot.partition is None else asdict(snapshot.partition)
    articles = [article.encode() for article in snapshot.articles]
    files = [asdict(file) for file in snapshot.files]
    return {"format": asdict(FORMAT.recorded), **values, "partition": partition, "articles": articles, "files": files}


@dataclass(slots=True)
class _Writing:
    folder: Path
    token: str
    on_progress: SnapshotProgress
    count: int = 0

    def files_of(self, article: Article, snapshot: SubscriberSnapshot) -> Iterator[SnapshotFile]:
        """Write the files of an article."""
        rows = ([rowguid, *row] for batch in snapshot.rows(article) for rowguid, row in batch)
        yield from self._write(article, FileKind.ROWS, self._reported(article, rows))
        versions = (_line(one) for batch in snapshot.versions(article, 0) for one in batch)
        yield from self._write(article, FileKind.VERSIONS, versions)

    def members_of(self, article: Article, members: Iterable[tuple[str, str | None]]) -> Iterator[SnapshotFile]:
        """Write the membership of an article's rows."""
        yield from self._write(article, FileKind.MEMBERS, (list(pair) for pair in members))

    def _reported(self, article: Article, rows: Iterable[Line]) -> Iterator[Line]:
        for number, row in enumerate(rows, 1):
            yield row
            if number % 1000 == 0:
                self.on_progress(article.name, number)

    def _write(self, article: Article, kind: FileKind, lines: Iterator[Line]) -> Iterator[SnapshotFile]:
        while chunk := list(islice(lines, _FILE_ROWS)):
            self.count += 1
            name = f"{self.token}-{self.count:06}.jsonl.gz"
            text = "\n".join(json.dumps(line, separators=(",", ":")) for line in chunk)
            # Without the time the same rows give the same bytes.
            content = gzip.compress(text.encode(), compresslevel=_LEVEL, mtime=0)
            (self.folder / name).write_bytes(content)
            yield SnapshotFile(name, article.name, kind, len(chunk), hashlib.sha256(content).hexdigest())


def _line(one: Write) -> Line:
    assert one.row is not None
    assert one.last is not None
    columns = None if one.columns is None else one.columns.hex()
    return [one.rowguid, one.lineage.hex(), one.last.hex(), columns, *one.row]


def read_write(line: Line, publisher: int) -> Write:
    """Return what stores a line of `FileKind.VERSIONS`."""
    rowguid, lineage, last, columns, *values = line
    return Write(
        rowguid=rowguid,
        row=tuple(values),
        is_live=True,
        lineage=bytes.fromhex(lineage),
        last=bytes.fromhex(last),
        columns=None if columns is None else bytes.fromhex(columns),
        origin=publisher,
    )


def read_members(
    snapshot: PartitionSnapshot, articles: Sequence[Article]
) -> dict[Article, list[tuple[str, str | None]]]:
    """Return the rows of each filtered article's partition, each with its parent's. Raises `SnapshotDamaged`."""
    return {
        article: [
            (rowguid, parent)
            for file in snapshot.files
            if file.kind is FileKind.MEMBERS and file.article == article.name
            for rowguid, parent in snapshot.lines(file)
        ]
        for article in articles
        if article.is_filtered
    }
