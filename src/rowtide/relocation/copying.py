"""Copy a lake and its log store: verified, and resumed where an earlier run stopped.

Capture may continue meanwhile. Data files are copied first; then files added since, and the entries that make them
readable. If everything is copied already, a run only compares.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rowtide.core.values import frozen
from rowtide.databases.file_access import make_place
from rowtide.lake.stores import prepare_lake, require_not_nested
from rowtide.log.errors import LogStoreNotWritable
from rowtide.log.store.location import probe_store
from rowtide.relocation.errors import CopyDamaged, CopyOvertaken
from rowtide.relocation.portions import CopyStep, LakePlace, Portion, Steps, is_same, plan_portion, require_apart
from rowtide.relocation.survey import LOG_STORE, PUBLISHING, files_of, find_existing, in_parallel, open_files, survey
from rowtide.relocation.transfer import FileTransfer, Vanished, Verified, Way
from rowtide.storage.local import reason_of
from rowtide.storage.places import local_path

_LOOKS = 10
"""The number of surveys: one is repeated if cleanup removes files during the copy."""
_LAST = (*reversed(PUBLISHING), LOG_STORE)


@frozen
class CopyProgress:
    """How far a copy is, in files and bytes; totals are of what this run has to copy, as far as it is known."""

    files: int
    bytes: int
    total_files: int
    total_bytes: int


@frozen
class Copied:
    """What a copy consists of, and how much of it this run copied; `bytes` are those of data files."""

    tables: int
    has_log_store: bool
    files: int
    bytes: int
    copied_files: int
    copied_bytes: int


OnProgress = Callable[[CopyProgress], None]


def copy_lake(
    source: LakePlace,
    target: LakePlace,
    *,
    for_group: bool = False,
    on_progress: OnProgress = lambda _progress: None,
) -> Copied:
    """Copy a lake and its log store, or complete a copy; return what is there then.

    Folders are created private to this user, or with `for_group` readable by their group. Raises `PlacesOverlap`,
    `NothingToCopy`, `CopyDiverged`, `CopyDamaged`, `CopyOvertaken`, and what the places raise.
    """
    copying = Copying(source, target, on_progress)
    copying.begin(for_group=for_group)
    return copying.complete()


def plan_copy(source: LakePlace, target: LakePlace) -> Copied:
    """Return what `copy_lake` would copy, without effect. Raises as that does, but for places not writable."""
    copying = Copying(source, target, lambda _progress: None)
    portions = copying.survey()
    missing = [step for steps in copying.plan(portions).values() for step in steps.copied]
    found = _sum_up(portions)
    return replace(found, copied_files=len(missing), copied_bytes=sum(step.size or 0 for step in missing))


class Copying:
    """The copy of a lake, and how far this run has come."""

    def __init__(self, source: LakePlace, target: LakePlace, on_progress: OnProgress) -> None:
        """Raises `PlacesOverlap`."""
        require_apart(source, target)
        self.source = source
        self.target = target
        self.verified = Verified.load(open_files(target.lake))
        self._count = _Count(self.verified, on_progress)
        self._known: dict[str, Portion] = {}

    def begin(self, *, for_group: bool) -> None:
        """Create the folders, and copy data files; those that vanish meanwhile are omitted. Raises as `copy_lake`."""
        portions = self.survey()
        steps = self.plan(portions)
        require_not_nested(self.target.lake, self.target.log_store)
        _prepare(self.target, for_group=for_group)
        self._go_through(steps, is_first=True)

    def complete(self, *, reads_copy: bool = True) -> Copied:
        """Copy what is missing and compare all; return what is there then. Raises as `copy_lake`.

        Without `reads_copy` the states of tables are not read from the copy: its files are those of the original.
        """
        vanished = ""
        for _ in range(_LOOKS):
            portions = self.survey()
            try:
                self._go_through(self.plan(portions), is_first=False)
            except Vanished as error:
                # The file was removed by cleanup, so the survey that named it is outdated.
                vanished = error.file
                continue
            self._verify_files(portions)
            if reads_copy:
                self._verify_states(portions)
            return replace(_sum_up(portions), copied_files=self._count.files, copied_bytes=self._count.bytes)
        raise CopyOvertaken(vanished, _LOOKS)

    def survey(self) -> tuple[Portion, ...]:
        """Return what is to be copied now: not a log store that stays where it is."""
        portions = survey(self.source, self._known)
        self._known = {portion.name: portion for portion in portions}
        if is_same(self.source.log_store, self.target.log_store):
            return tuple(portion for portion in portions if portion.name != LOG_STORE)
        return portions

    def plan(self, portions: Sequence[Portion]) -> dict[str, Steps]:
        """Return what is to be done for each portion, by name. Raises `CopyDiverged`."""
        there = in_parallel(lambda portion: find_existing(self.target, portion), portions)
        return {
            portion.name: plan_portion(
                portion,
                existing,
                files_of(self.target, portion.name).url(""),
                files_of(self.source, portion.name).url(""),
                self.verified,
            )
            for portion, existing in zip(portions, there, strict=True)
        }

    def _go_through(self, steps: Mapping[str, Steps], *, is_first: bool) -> None:
        self._count.expect([step for each in steps.values() for step in each.copied])
        transfer = FileTransfer(self._find_way, self._count)
        try:
            transfer.run([[step] for each in steps.values() for step in each.compared])
            # Cleanup continues during the first pass, and may remove surveyed files. Later passes survey again instead.
            transfer.run([[step] for each in steps.values() for step in each.data], skips_vanished=is_first)
            if not is_first:
                transfer.run([[step] for each in steps.values() for step in each.hidden])
                # Files that refer to others come last: publications, and the log's position.
                transfer.run([each.ordered for name, each in steps.items() if name not in _LAST])
                for name in _LAST:
                    transfer.run([steps[name].ordered] if name in steps else [])
        finally:
            self.verified.flush()

    def _verify_files(self, portions: Sequence[Portion]) -> None:
        """Require that the copy has each file, compared with its original, and no later entry. Raises `CopyDamaged`."""
        there = in_parallel(lambda portion: find_existing(self.target, portion), portions)
        for portion, existing in zip(portions, there, strict=True):
            files = files_of(self.target, portion.name)
            if existing.version != portion.version:
                raise CopyDamaged(files.url(""), f"version {existing.version} is there, not {portion.version}")
            for path in portion.paths:
                if path not in existing.sizes or not self.verified.has(portion.name, path, existing.sizes[path]):
                    raise CopyDamaged(files.url(path), "it was removed or replaced while the lake was copied")

    def _verify_states(self, portions: Sequence[Portion]) -> None:
        """Require that what is read from the copy is what was surveyed. Raises `CopyDamaged`."""
        copies = {portion.name: portion for portion in survey(self.target)}
        for portion in portions:
            copy = copies.get(portion.name)
            if copy is None or (copy.version, copy.content) != (portion.version, portion.content):
                there = f"version {copy.version}" if copy is not None else "nothing"
                url = files_of(self.target, portion.name).url("")
                raise CopyDamaged(url, f"{there} is read there, not version {portion.version}")

    def _find_way(self, portion: str) -> Way:
        return Way(files_of(self.source, portion), files_of(self.target, portion))


class _Count:
    """Counts what is copied, and records what is verified; for several threads."""

    def __init__(self, verified: Verified, on_progress: OnProgress) -> None:
        self.files = 0
        self.bytes = 0
        self._verified = verified
        self._on_progress = on_progress
        self._total_files = 0
        self._total_bytes = 0
        self._lock = threading.Lock()

    def expect(self, steps: Sequence[CopyStep]) -> None:
        """Expect files to be copied, with those that were."""
        with self._lock:
            self._total_files = self.files + len(steps)
            self._total_bytes = self.bytes + sum(step.size or 0 for step in steps)

    def note_bytes(self, count: int) -> None:
        with self._lock:
            self.bytes += count
            self._report()

    def note_copied(self) -> None:
        with self._lock:
            self.files += 1
            self._total_bytes = max(self._total_bytes, self.bytes)
            self._report()

    def note_verified(self, step: CopyStep, size: int) -> None:
        self._verified.add(step.portion, step.path, size)

    def _report(self) -> None:
        self._on_progress(CopyProgress(self.files, self.bytes, self._total_files, max(self._total_bytes, self.bytes)))


def _prepare(place: LakePlace, *, for_group: bool) -> None:
    """Create the folders of a copy, and see that they can be written."""
    prepare_lake(place.lake, for_group=for_group)
    folder = local_path(place.log_store)
    if folder is not None:
        try:
            make_place(Path(folder).absolute(), for_group=for_group)
        except OSError as error:
            raise LogStoreNotWritable(folder, reason_of(error)) from error
    probe_store(place.log_store)


def _sum_up(portions: Sequence[Portion]) -> Copied:
    tables = [portion for portion in portions if portion.name != LOG_STORE]
    return Copied(
        tables=len(tables),
        has_log_store=len(tables) < len(portions),
        files=sum(len(list(portion.paths)) for portion in portions),
        bytes=sum(sum(portion.data.values()) for portion in portions),
        copied_files=0,
        copied_bytes=0,
    )
