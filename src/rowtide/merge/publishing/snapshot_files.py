"""Files of a snapshot that is prepared for the subscribers of a partition (SQL Server: a dynamic snapshot).

A folder has `snapshot.json`, which is written last, and files of gzipped JSON lines: rows of an article, the versions
of those that have metadata at the hub, and of a filtered article the rows of its partition with their parents'.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import Any
from uuid import uuid4

from rowtide.core.errors import FileNotWritable
from rowtide.core.formats import Format, StoredFormat
from rowtide.merge.articles import Article, Partition, Publication
from rowtide.merge.errors.subscribing import SnapshotDamaged, SnapshotUnfit
from rowtide.merge.publishing.snapshots import Snapshot, SnapshotProgress
from rowtide.merge.versions.changes import Write

MANIFEST = "snapshot.json"
FORMAT = Format("merge snapshot")
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


@dataclass(frozen=True, slots=True)
class SnapshotFile:
    """A file; `sha256` is that of its compressed bytes."""

    name: str
    article: str
    kind: FileKind
    rows: int
    sha256: str


@dataclass(frozen=True, slots=True)
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
    snapshot: Snapshot,
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
        partial = folder / f".{MANIFEST}.partial"
        partial.write_text(json.dumps(_encoded(written), indent=1))
        partial.replace(folder / MANIFEST)
        for old in set(folder.glob("*.jsonl.gz")) - {folder / file.name for file in files}:
            old.unlink()
    except OSError as error:
        raise FileNotWritable(error.filename or str(folder), error.strerror or str(error)) from error
    return written


def read_snapshot(folder: Path) -> PartitionSnapshot:
    """Read the description of a snapshot. Raises `SnapshotUnfit`, `FormatNewer`, `FormatOutdated`."""
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
        **{name: value for name, value in found.items() if name in PartitionSnapshot.__slots__},
    )


def _encoded(snapshot: PartitionSnapshot) -> dict[str, Any]:
    fields = {name: getattr(snapshot, name) for name in snapshot.__slots__ if name != "folder"}
    partition = None if snapshot.partition is None else asdict(snapshot.partition)
    articles = [article.encode() for article in snapshot.articles]
    files = [asdict(file) for file in snapshot.files]
    return {"format": asdict(FORMAT.recorded), **fields, "partition": partition, "articles": articles, "files": files}


@dataclass(slots=True)
class _Writing:
    folder: Path
    token: str
    on_progress: SnapshotProgress
    count: int = 0

    def files_of(self, article: Article, snapshot: Snapshot) -> Iterator[SnapshotFile]:
        """Write the files of an article."""
        rows = ([rowguid, *row] for batch in snapshot.rows(article) for rowguid, row in batch)
        yield from self._write(article, FileKind.ROWS, self._told(article, rows))
        versions = (_line(one) for batch in snapshot.versions(article, 0) for one in batch)
        yield from self._write(article, FileKind.VERSIONS, versions)

    def members_of(self, article: Article, members: Sequence[tuple[str, str | None]]) -> Iterator[SnapshotFile]:
        """Write the membership of an article's rows."""
        yield from self._write(article, FileKind.MEMBERS, (list(pair) for pair in members))

    def _told(self, article: Article, rows: Iterable[Line]) -> Iterator[Line]:
        for number, row in enumerate(rows, 1):
            yield row
            if number % 1000 == 0:
                self.on_progress(article.name, number)

    def _write(self, article: Article, kind: FileKind, lines: Iterator[Line]) -> Iterator[SnapshotFile]:
        while chunk := list(islice(lines, _FILE_ROWS)):
            self.count += 1
            name = f"{self.token}-{self.count:06}.jsonl.gz"
            text = "\n".join(json.dumps(line, separators=(",", ":")) for line in chunk)
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
