"""The folders that rowtide writes: reading their state, and checking it."""

from __future__ import annotations

import errno
import os
import shlex
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from rowtide.core.errors import RowtideError
from rowtide.core.values import frozen
from rowtide.delta.errors import LakeReadFailed, LakeWriteFailed
from rowtide.diagnosis.codes import Code
from rowtide.diagnosis.result import (
    Advice,
    CheckResult,
    Measure,
    ShellCommand,
    State,
    failing,
    format_bytes,
    healthy,
    of_error,
    or_healthy,
    sizes,
    unknown,
    warning,
)
from rowtide.lake.errors import LakeNotWritable
from rowtide.log.errors import LogStoreNotWritable
from rowtide.storage.objects import ObjectFolder
from rowtide.storage.places import local_path
from rowtide.storage.store import Missing, StoreErrors

LAKE, LOG_STORE = "lake", "log store"
"""The subjects of the places."""


@frozen
class PlaceFacts:
    """A folder that rowtide writes, seen from this machine; sizes in bytes.

    `subject` names it: the lake, the log store. It `is_missing` when it was there once; one that is still to be made
    is checked by the folder in which it will be. `problem` says why it cannot be written, `device` which disk it is on,
    `mode` who may do what there, of one that is there.
    """

    subject: str
    path: str
    is_missing: bool
    problem: str | None
    device: int
    free_bytes: int
    total_bytes: int
    mode: int | None = None

    @property
    def is_forbidden(self) -> bool:
        """This user may not write there; others may."""
        return self.problem == os.strerror(errno.EACCES)


@frozen
class ObjectPlace:
    """A folder of an object store."""

    subject: str
    url: str
    problem: str | None
    """Why it cannot be listed."""


Place = PlaceFacts | ObjectPlace


def read_place(subject: str, url: str, *, was_made: bool) -> Place:
    """Return what is known of a folder; one that `was_made` has to be there, any other is checked by its parent."""
    path = local_path(url)
    if path is None:
        return ObjectPlace(subject, url, _find_problem_of_listing(url))
    folder = Path(path).expanduser().absolute()
    there, problem = _find_nearest(folder)
    usage = shutil.disk_usage(there)
    return PlaceFacts(
        subject=subject,
        path=str(folder),
        is_missing=was_made and there != folder and problem is None,
        problem=problem or _find_problem(there),
        device=there.stat().st_dev,
        free_bytes=usage.free,
        total_bytes=usage.total,
        mode=there.stat().st_mode if there == folder else None,
    )


def _find_problem_of_listing(url: str) -> str | None:
    try:
        ObjectFolder(url, StoreErrors(LakeReadFailed, LakeWriteFailed)).list("_/")
    except Missing:
        return "there is no such bucket"
    except RowtideError as error:
        return error.filled_fact
    return None


def _find_nearest(folder: Path) -> tuple[Path, str | None]:
    """Return a folder, or the nearest one above it that is there; and why it cannot be looked at."""
    problem = None
    for path in (folder, *folder.parents):
        try:
            path.stat()
        except (FileNotFoundError, NotADirectoryError):
            # It would be made: whether that succeeds depends on the nearest folder that is there.
            continue
        except OSError as error:
            problem = problem or error.strerror
        else:
            return path, problem
    raise AssertionError("a root is always there")


def _find_problem(folder: Path) -> str | None:
    """Write a file: permissions alone do not decide it (read-only file systems, the superuser)."""
    try:
        with tempfile.NamedTemporaryFile(dir=folder):
            return None
    except OSError as error:
        return error.strerror or os.strerror(error.errno or 0)


LEAST_FREE_BYTES = 1 << 30
LEAST_FREE_SHARE = 0.05

ANYONE_ELSE = 0o007

_REFUSALS: dict[str, Callable[[str, str], RowtideError]] = {LAKE: LakeNotWritable, LOG_STORE: LogStoreNotWritable}


def check_places(places: Iterable[Place]) -> Iterator[CheckResult]:
    """Check folders; of two on one disk only the first reports how full it is."""
    disks: set[int] = set()
    for place in places:
        if isinstance(place, ObjectPlace):
            yield from check_objects(place)
        else:
            yield from check_place(place, is_known_disk=place.device in disks)
            yield from _check_mode(place)
            disks.add(place.device)


def check_taken(blockers: Iterable[RowtideError]) -> Iterator[CheckResult]:
    """Check what is wrong with the folder that a log store would have."""
    for error in blockers:
        elsewhere = Advice("Give enable-db a folder of this machine with --log-store.")
        yield of_error(Code.PLACE_TAKEN, State.FAILING, LOG_STORE, error, elsewhere)


def check_place(place: PlaceFacts, *, is_known_disk: bool = False) -> Iterator[CheckResult]:
    """Check one folder: whether it is there, can be written, and has room."""
    if place.is_missing:
        message = f"{place.path} is not on this machine"
        advice = "Check where capture runs. If it is gone there too, restore it, or disable and enable the database."
        yield failing(Code.PLACE_MISSING, place.subject, message, advice)
    elif place.problem is not None:
        yield _refuse(place, place.problem)
    elif not is_known_disk and place.free_bytes < max(LEAST_FREE_BYTES, place.total_bytes * LEAST_FREE_SHARE):
        message = f"{_describe_room(place)} are free at {place.path}"
        advice = "Free space, or move it to a larger disk."
        yield warning(Code.DISK_FULL_SOON, place.subject, message, advice, _measure(place))


def check_objects(place: ObjectPlace) -> Iterator[CheckResult]:
    """Check a folder of an object store: whether it can be listed."""
    if place.problem is not None:
        advice = "Check the URL, the endpoint and the credentials in the environment (AWS_…, GOOGLE_…, AZURE_…)."
        yield failing(Code.BUCKET_UNREACHABLE, place.subject, f"{place.url} cannot be listed: {place.problem}", advice)


def _check_mode(place: PlaceFacts) -> Iterator[CheckResult]:
    """Warn of a folder whose rows any user of the machine may read; its group was asked for, or is the user's own."""
    if place.mode is not None and place.mode & ANYONE_ELSE:
        message = f"every user of this machine can read {place.path}: its mode is {place.mode & 0o777:o}"
        yield warning(Code.PLACE_PUBLIC, place.subject, message, ShellCommand(f"chmod -R o= {shlex.quote(place.path)}"))


def _describe_room(place: PlaceFacts) -> str:
    """Return how much of its disk is free."""
    return f"{format_bytes(place.free_bytes)} of {format_bytes(place.total_bytes)}"


def _refuse(place: PlaceFacts, problem: str) -> CheckResult:
    refusal = _REFUSALS.get(place.subject)
    if refusal is not None:
        return of_error(Code.PLACE_NOT_WRITABLE, State.FAILING, place.subject, refusal(place.path, problem))
    message = f"nothing can be written at {place.path}: {problem}"
    return failing(Code.PLACE_NOT_WRITABLE, place.subject, message, "Give this user the right to write there.")


def check_room(place: Place) -> Iterator[CheckResult]:
    """Check a folder, also how much room there is; one that this user may not write is unknown: others may write it."""
    if isinstance(place, ObjectPlace):
        can_be_listed = healthy(Code.PLACE_HEALTHY, place.subject, f"{place.url} can be listed")
        yield from or_healthy(check_objects(place), can_be_listed)
    elif place.is_forbidden:
        message = f"this user may not write at {place.path}"
        advice = "Ask for its health as the user that writes there."
        yield unknown(Code.PLACE_UNKNOWN, place.subject, message, advice)
    else:
        message = f"{_describe_room(place)} are free at {place.path}"
        has_room = healthy(Code.PLACE_HEALTHY, place.subject, message, measures=_measure(place))
        yield from or_healthy(check_place(place), has_room)


def _measure(place: PlaceFacts) -> tuple[Measure, ...]:
    return sizes(free_bytes=place.free_bytes, total_bytes=place.total_bytes)
