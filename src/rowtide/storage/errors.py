"""The errors of storage: 22xx, with the log store's."""

from __future__ import annotations

from rowtide.core.errors import Invalid, RowtideError


class StorageSchemeUnsupported(Invalid, number=2202):
    """A URL has a scheme on which files cannot be made durable."""

    fact = 'the place "{url}" is on "{scheme}", which is not supported'
    hint = "Give a folder, as a path or as file:///path, or a URL of an object store: s3://, gs:// or az://."
    url: str
    scheme: str


class StorageUrlMalformed(Invalid, number=2206):
    """A URL of an object store names no place on it."""

    fact = 'the URL "{url}" names no place on an object store: {reason}'
    hint = "Write it as SCHEME://BUCKET/FOLDER; credentials come from the environment, not from the URL."
    url: str
    reason: str


class StorageEndpointMalformed(Invalid, number=2209):
    """An environment variable for the server of an object store does not hold a URL."""

    fact = '{variable} is "{endpoint}", which is not the URL of a server'
    hint = "Write it with its scheme, as https://HOST:PORT, or http://HOST:PORT for requests that are not encrypted."
    variable: str
    endpoint: str


class PutIfAbsentIgnored(RowtideError, number=2207):
    """The store replaces a file that is put only if it is absent, or loses the metadata of a put."""

    fact = "the store at {url} cannot decide between two writers: {reason}"
    hint = "Use a store with conditional writes (If-None-Match), as Amazon S3, Cloud Storage and Azure have them."
    url: str
    reason: str


class StoreForked(RowtideError, number=2208):
    """The process was forked from one that had used an object store: the client's threads are not in the copy."""

    fact = "the object store at {url} cannot be used in a process that was forked from one that had used it"
    hint = "Start processes by the method `spawn` or `forkserver` of multiprocessing."
    url: str
