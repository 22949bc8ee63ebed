"""Which files of a log make up a version."""

from __future__ import annotations

import pytest

from rowtide.delta.log_files import CheckpointUnknown, LogFiles, LogIncomplete, checkpoint_path, commit_path

LOG = "_delta_log/"


def commits(*versions: int) -> list[str]:
    return [commit_path(version) for version in versions]


def part(version: int, number: int, of: int) -> str:
    return f"{LOG}{version:020d}.checkpoint.{number:010d}.{of:010d}.parquet"


def test_without_checkpoint_all_commits_make_up_the_last_version() -> None:
    segment = LogFiles.of([*commits(0, 1, 2), f"{LOG}{1:020d}.crc", f"{LOG}_last_checkpoint"]).make_up()
    assert (segment.version, segment.checkpoint_version) == (2, None)
    assert [path for _, path in segment.commits] == commits(0, 1, 2)


def test_the_last_complete_checkpoint_and_what_follows_are_taken() -> None:
    files = LogFiles.of([*commits(0, 1, 2, 3, 4), checkpoint_path(1), part(3, 1, 2)])
    segment = files.make_up()
    assert (segment.checkpoint, segment.commits) == (
        (checkpoint_path(1),),
        ((2, commit_path(2)), (3, commit_path(3)), (4, commit_path(4))),
    )


def test_the_parts_of_a_checkpoint_are_taken_in_order() -> None:
    segment = LogFiles.of([part(3, 2, 2), part(3, 1, 2), *commits(4)]).make_up()
    assert segment.checkpoint == (part(3, 1, 2), part(3, 2, 2))


def test_a_checkpoint_alone_is_a_version() -> None:
    assert LogFiles.of([checkpoint_path(7)]).make_up().version == 7


def test_an_earlier_version_takes_an_earlier_checkpoint() -> None:
    segment = LogFiles.of([*commits(1, 2, 3, 4, 5), checkpoint_path(1), checkpoint_path(4)]).make_up(3)
    assert (segment.version, segment.checkpoint_version) == (3, 1)


@pytest.mark.parametrize(
    ("paths", "version", "missing"),
    [
        ([*commits(0, 1, 3)], None, 2),
        ([*commits(2, 3)], None, 0),
        ([checkpoint_path(4), *commits(6)], None, 5),
        ([*commits(0, 1)], 5, 2),
        ([checkpoint_path(4), *commits(3, 5)], 3, 0),
    ],
)
def test_a_log_with_a_hole_is_refused(paths: list[str], version: int | None, missing: int) -> None:
    with pytest.raises(LogIncomplete, match=f"version {missing} is missing"):
        LogFiles.of(paths).make_up(version)


def test_a_version_that_newer_checkpoints_have_is_told_apart() -> None:
    uuid = f"{LOG}{4:020d}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json"
    with pytest.raises(CheckpointUnknown):
        LogFiles.of([uuid, *commits(5)]).make_up()
    assert LogFiles.of([uuid, checkpoint_path(4), *commits(5)]).make_up().version == 5
