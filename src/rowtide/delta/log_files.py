"""The names of a table's log files, and which of them make up a version."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

LOG = "_delta_log/"
LAST_CHECKPOINT = f"{LOG}_last_checkpoint"

_COMMIT = re.compile(rf"{LOG}(\d{{20}})\.json")
_CHECKPOINT = re.compile(rf"{LOG}(\d{{20}})\.checkpoint(?:\.(\d{{10}})\.(\d{{10}}))?\.parquet")
_OTHER_CHECKPOINT = re.compile(rf"{LOG}(\d{{20}})\.checkpoint\.[0-9a-f-]{{36}}\.(?:json|parquet)")
_OF_VERSION = re.compile(rf"{LOG}(\d{{20}})\.")


def commit_path(version: int) -> str:
    """Return the path of a commit."""
    return f"{LOG}{version:020d}.json"


def checkpoint_path(version: int) -> str:
    """Return the path of a checkpoint in one file."""
    return f"{LOG}{version:020d}.checkpoint.parquet"


def version_of(path: str) -> int | None:
    """Return the version to which a log file belongs; None for other files."""
    found = _OF_VERSION.match(path)
    return int(found[1]) if found is not None else None


@dataclass(frozen=True, slots=True)
class Segment:
    """The files of which a version is made: the checkpoint's parts, then the commits above it, in order."""

    version: int
    checkpoint_version: int | None
    checkpoint: tuple[str, ...]
    commits: tuple[tuple[int, str], ...]


class LogIncomplete(ValueError):
    """The files do not make up the version."""


class CheckpointUnknown(LogIncomplete):
    """The version can only be read from a checkpoint of a newer form (V2)."""


@dataclass(frozen=True, slots=True)
class LogFiles:
    """A table's log files, or those from a version on."""

    commits: dict[int, str]
    checkpoints: dict[int, tuple[str, ...]]
    """Complete ones."""
    other_checkpoints: frozenset[int]

    @classmethod
    def of(cls, paths: Iterable[str]) -> LogFiles:
        """Sort the paths of a table's log."""
        commits: dict[int, str] = {}
        parts: defaultdict[tuple[int, int], list[str]] = defaultdict(list)
        others: set[int] = set()
        for path in paths:
            if (commit := _COMMIT.fullmatch(path)) is not None:
                commits[int(commit[1])] = path
            elif (checkpoint := _CHECKPOINT.fullmatch(path)) is not None:
                parts[int(checkpoint[1]), int(checkpoint[3] or 0)].append(path)
            elif (other := _OTHER_CHECKPOINT.fullmatch(path)) is not None:
                others.add(int(other[1]))
        complete = {version: tuple(sorted(found)) for (version, of), found in parts.items() if len(found) == (of or 1)}
        return cls(commits, complete, frozenset(others))

    @property
    def is_empty(self) -> bool:
        """Whether there is no table."""
        return not (self.commits or self.checkpoints or self.other_checkpoints)

    def make_up(self, version: int | None = None) -> Segment:
        """Return the files of a version, by default the last. Raises `LogIncomplete`, `CheckpointUnknown`."""
        last = max((*self.commits, *self.checkpoints), default=-1) if version is None else version
        checkpoint = max((known for known in self.checkpoints if known <= last), default=None)
        first = 0 if checkpoint is None else checkpoint + 1
        missing = [number for number in range(first, last + 1) if number not in self.commits]
        if missing or last < 0:
            if any(number >= first for number in self.other_checkpoints):
                raise CheckpointUnknown
            raise LogIncomplete(f"version {missing[0] if missing else last} is missing from its log")
        commits = tuple((number, self.commits[number]) for number in range(first, last + 1))
        return Segment(last, checkpoint, self.checkpoints[checkpoint] if checkpoint is not None else (), commits)
