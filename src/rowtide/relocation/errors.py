"""Errors of adopting moved databases, and of copying and moving lakes: 214x and 312x."""

from __future__ import annotations

from rowtide.core.errors import AlreadyExists, Denied, Invalid, NotFound, Retryable, RowtideError


class NothingToCopy(NotFound, number=3121):
    """The place that is to be copied has neither tables of a lake nor a log store."""

    fact = "there is no lake at {lake}, and no log store at {log_store}"
    hint = """Name the lake's folder, as `rowtide cdc enable-db --lake PATH` was given it; a log store elsewhere by
        --from-log-store."""
    lake: str
    log_store: str


class CopyDiverged(AlreadyExists, number=3122):
    """The target has a table or a log store that is not an earlier state of the source."""

    fact = "{place} is not a copy of {source}, or was written to since: {reason}"
    hint = "Give the copy a folder of its own, or remove what is there if nothing needs it."
    place: str
    source: str
    reason: str


class CopyDamaged(RowtideError, number=3123):
    """A file that was copied is read back with another content."""

    fact = "the copy {file} does not have the content of its original: {reason}"
    hint = "Check the storage of the copy; remove that file and run the command again."
    file: str
    reason: str


class PlacesOverlap(Invalid, number=3124):
    """One of the places of a copy is inside another."""

    fact = "{target} cannot hold a copy of {source}: {reason}"
    hint = "Name a folder outside the lake and its log store."
    target: str
    source: str
    reason: str


class CopyOvertaken(Retryable, number=3125):
    """Files were removed from the source again and again before they were copied."""

    fact = "{file} was removed from the source before it was copied, {times} times in a row"
    hint = "Run the command again: what is copied stays. If that does not help, stop capture for the last run."
    file: str
    times: int


class LakeElsewhere(Invalid, number=3126):
    """The lake that is to be switched is not the one that the database uses."""

    fact = "database {database} uses the lake {lake}, neither {source} nor {target}"
    hint = "Copy from the lake that the database uses."
    database: str
    lake: str
    source: str
    target: str


class CopyReadFailed(Retryable, number=3127):
    """A file cannot be read, at the source or at the target, where it is compared."""

    fact = "the lake is not copied: reading {path} failed: {reason}"
    hint = "Check that the storage is reachable; the same command resumes with what is missing."
    path: str
    reason: str


class CopyWriteFailed(Retryable, number=3128):
    """A file of the copy cannot be written."""

    fact = "the lake is not copied: writing {path} failed: {reason}"
    hint = "Check that the storage is reachable and not full; the same command resumes with what is missing."
    path: str
    reason: str


class OriginalAlive(Denied, number=2143):
    """The database that this one was copied from is on the same server: this one is a copy, and was not moved."""

    fact = "database {database} is a copy: {original} still exists, and would lose its log store and its lake"
    hint = """`rowtide cdc disable-db` removes what was copied. To continue here and abandon the original, run `rowtide
        adopt --abandon-original`."""
    database: str
    original: str


class NothingToResumeFrom(NotFound, number=2144):
    """The log store that the metadata names does not exist."""

    fact = "the log store {url} of database {database} does not exist"
    hint = "Mount or move it there and repeat; or abandon it: `rowtide cdc disable-db`, then enable with a new lake."
    url: str
    database: str
