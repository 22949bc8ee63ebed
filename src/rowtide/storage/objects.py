"""A store in a folder of an object store: S3 and compatible stores, Cloud Storage, Azure.

A file is one object, put by one request, or by a multipart upload if it is large. Put-if-absent uses the store's own
condition, in one request.
"""

from __future__ import annotations

import io
import os
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rowtide.storage.buckets import LEAST_PART_BYTES, Bucket, Patience
from rowtide.storage.errors import PutIfAbsentIgnored
from rowtide.storage.places import parse_object_url
from rowtide.storage.refusals import describe_failure, find_refusal
from rowtide.storage.store import Missing, StoreErrors, Traffic, count

if TYPE_CHECKING:
    import pyarrow as pa
    from obstore import GetResult, ObjectMeta

_ATTEMPT = "rowtideattempt"
"""Metadata of an object that was put if absent: the attempt that made it. Azure takes identifiers of C# only."""
_WHOLE_BYTES = 32 * 1024 * 1024
"""Files up to this size are read by one request; of larger ones only the needed ranges."""
_PART_BYTES = 8 * 1024 * 1024
_LARGEST_PUT = 2 * _PART_BYTES
_PARTS_AT_ONCE = 4
_LISTED_AT_ONCE = 1000


class ObjectFolder:
    """A folder of a bucket; safe for many processes and threads, and may be pickled.

    The environment's variables say how the bucket is reached; they are part of what is pickled, keys included. The
    bucket is not created.
    """

    def __init__(self, url: str, errors: StoreErrors, patience: Patience = Patience()) -> None:  # noqa: B008 - frozen
        """Raises `StorageSchemeUnsupported`, `StorageUrlMalformed`."""
        parsed = parse_object_url(url)
        self._url = str(parsed)
        self._folder = f"{parsed.path}/" if parsed.path else ""
        self._bucket = Bucket.of(parsed, patience)
        self._errors = errors

    def __repr__(self) -> str:
        return f"ObjectFolder({self._url!r})"

    def put_durable(self, path: str, data: bytes) -> None:
        self._put(path, data)

    def write_durable(self, path: str, write: Callable[[pa.NativeFile], object]) -> int:
        import pyarrow as pa

        sink = pa.BufferOutputStream()
        write(sink)
        data = sink.getvalue()
        self._put(path, data)
        return data.size

    def put_if_absent(self, path: str, data: bytes) -> bool:
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        token = uuid.uuid4().hex
        count(Traffic(writes=1, transferred=len(data)))
        with self._write_errors(path):
            try:
                self._bucket.call(
                    lambda store: store.put(
                        self._folder + path, data, mode="create", use_multipart=False, attributes={_ATTEMPT: token}
                    ),
                    sends=len(data),
                )
            except (AlreadyExistsError, PreconditionError):
                # A reply may be lost, so that a repeated put finds the object of its own first attempt.
                return self._read_token(path) == token
        return True

    def get(self, path: str) -> bytes:
        with self._read_errors(path):
            count(Traffic(reads=1))
            found = bytes(self._bucket.call(lambda store: store.get(self._folder + path).bytes()))
            count(Traffic(transferred=len(found)))
            return found

    def open(self, path: str) -> pa.NativeFile:
        import pyarrow as pa

        with self._read_errors(path):
            count(Traffic(reads=1))
            size, content = self._bucket.call(lambda store: _read_whole(store.get(self._folder + path)))
            count(Traffic(transferred=0 if content is None else size))
        if content is not None:
            return pa.BufferReader(pa.py_buffer(content))
        return pa.PythonFile(_LargeFile(lambda start, end: self._get_range(path, start, end), size), mode="r")

    def list(self, prefix: str, *, after: str = "", before: datetime | None = None) -> Sequence[str]:
        return sorted(
            path
            for path, meta in self._list(prefix.rpartition("/")[0], after)
            if path.startswith(prefix) and path > after and (before is None or meta["last_modified"] < before)
        )

    def delete(self, path: str) -> None:
        with self._write_errors(path), suppress(FileNotFoundError):
            self._bucket.call(lambda store: store.delete(self._folder + path))

    def sweep(self, before: datetime) -> None:
        """Do nothing: there are no temporary names, and the bucket's lifecycle deletes parts of interrupted uploads."""

    def list_folders(self, prefix: str) -> Sequence[str]:
        inner = f"{self._folder}{prefix}".rstrip("/")
        with self._read_errors(prefix):
            found = self._bucket.call(lambda store: store.list_with_delimiter(inner or None)["common_prefixes"])
        return sorted(folder.rstrip("/").rpartition("/")[2] for folder in found)

    def list_sizes(self, prefix: str) -> Mapping[str, int]:
        found = self._list(prefix.rpartition("/")[0], "")
        return {path: meta["size"] for path, meta in found if path.startswith(prefix)}

    def put_stream(self, path: str, read: Callable[[], Iterator[bytes]]) -> None:
        def put(store: Any) -> None:
            failures: list[Exception] = []
            try:
                store.put(self._folder + path, _noting(read(), failures), use_multipart=True, **self._parts())
            except Exception:
                # Kept aside, because the client would wrap it in an error of its own, which is retried.
                if failures:
                    raise failures[0] from None
                raise

        with self._write_errors(path):
            self._bucket.call(put, sends=LEAST_PART_BYTES)

    def url(self, path: str) -> str:
        return f"{self._url}/{path}" if path else self._url

    def test_writing(self) -> None:
        """Put and delete a file, and see that of two attempts to put one the second is refused.

        Raises `PutIfAbsentIgnored`, `write_failed`.
        """
        path = f"probe-{uuid.uuid4().hex}"
        if not self.put_if_absent(path, b"1"):
            raise PutIfAbsentIgnored(self._url, "a name that is free is said to be taken")
        try:
            if self.put_if_absent(path, b"2"):
                raise PutIfAbsentIgnored(self._url, "it replaced a file that was to be put only if it was absent")
            if self._read_token(path) is None:
                raise PutIfAbsentIgnored(self._url, "it does not keep the metadata of an object")
        finally:
            self.delete(path)

    def _put(self, path: str, data: bytes | pa.Buffer) -> None:
        content = memoryview(data).cast("B")

        def put(store: Any) -> None:
            is_large = len(content) > (LEAST_PART_BYTES if self._bucket.is_slow else _LARGEST_PUT)
            # An upload in parts is begun and completed.
            count(Traffic(2 + len(content) // _PART_BYTES if is_large else 1, transferred=len(content)))
            store.put(self._folder + path, content, use_multipart=is_large, **self._parts())

        with self._write_errors(path):
            self._bucket.call(put, sends=min(len(content), LEAST_PART_BYTES))

    def _parts(self) -> Mapping[str, int]:
        """Return how a multipart upload is made: on a slow network in small parts, one after the other."""
        if self._bucket.is_slow:
            return {"chunk_size": LEAST_PART_BYTES, "max_concurrency": 1}
        return {"chunk_size": _PART_BYTES, "max_concurrency": _PARTS_AT_ONCE}

    def _read_token(self, path: str) -> str | None:
        """Return the attempt that made an object; None of one that was deleted meanwhile."""
        count(Traffic(reads=1))
        try:
            found = self._bucket.call(lambda store: store.get(self._folder + path).attributes)
        except FileNotFoundError:
            return None
        return {name.lower(): value for name, value in found.items()}.get(_ATTEMPT)

    def _get_range(self, path: str, start: int, end: int) -> Any:
        count(Traffic(reads=1, transferred=end - start))
        with self._read_errors(path):
            return self._bucket.call(lambda store: store.get_range(self._folder + path, start=start, end=end))

    def _list(self, folder: str, after: str) -> Iterator[tuple[str, ObjectMeta]]:
        """Yield the paths below a folder, in the order of their bytes, with what the store says of each file."""
        inner = f"{self._folder}{folder}".rstrip("/")

        def find(store: Any) -> list[ObjectMeta]:
            offset = self._folder + after if after else None
            pages = store.list(inner or None, offset=offset, chunk_size=_LISTED_AT_ONCE)
            return [found for page in pages for found in page]

        with self._read_errors(folder):
            found = self._bucket.call(find)
        count(Traffic(writes=1 + len(found) // _LISTED_AT_ONCE))
        for meta in found:
            yield meta["path"].removeprefix(self._folder), meta

    @contextmanager
    def _read_errors(self, path: str) -> Iterator[None]:
        from obstore.exceptions import BaseError

        try:
            yield
        except FileNotFoundError as error:
            if find_refusal(str(error)) is not None:
                # The bucket does not exist, which must not be mistaken for a missing file.
                raise self._errors.read_failed(self.url(path), _reason_of(error)) from error
            raise Missing(path) from None
        except (BaseError, OSError, ValueError) as error:
            raise self._errors.read_failed(self.url(path), _reason_of(error)) from error

    @contextmanager
    def _write_errors(self, path: str) -> Iterator[None]:
        from obstore.exceptions import BaseError

        try:
            yield
        except FileNotFoundError as error:
            reason = f"there is no bucket {self._bucket}. Create it, or correct the URL"
            raise self._errors.write_failed(self.url(path), reason) from error
        except (BaseError, OSError, ValueError) as error:
            raise self._errors.write_failed(self.url(path), _reason_of(error)) from error


class _LargeFile(io.RawIOBase):
    """A file of which ranges are read, each by a request."""

    def __init__(self, get_range: Callable[[int, int], Any], size: int) -> None:
        super().__init__()
        self._get_range = get_range
        self._size = size
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        return self._at

    def size(self) -> int:
        return self._size

    def read(self, size: int | None = -1) -> bytes:
        end = self._size if size is None or size < 0 else min(self._at + size, self._size)
        if end <= self._at:
            return b""
        found = bytes(self._get_range(self._at, end))
        self._at += len(found)
        return found


def _noting(pieces: Iterator[bytes], failures: list[Exception]) -> Iterator[bytes]:
    try:
        yield from pieces
    except Exception as error:
        # Errors of the caller's reader, which the client would hide behind an error of its own.
        failures.append(error)
        raise


def _read_whole(found: GetResult) -> tuple[int, Any]:
    """Return a file's size, and its content unless it is large."""
    size = found.meta["size"]
    return size, found.bytes() if size <= _WHOLE_BYTES else None


def _reason_of(error: Exception) -> str:
    return describe_failure(str(error).strip() or type(error).__name__)
