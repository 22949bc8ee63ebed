"""The defaults that the help names are those of the code."""

from __future__ import annotations

from typing import get_args

import pytest

from rowtide.cli.replication.options import CommitBatchSize, CommitBatchThreshold
from rowtide.core.options import Option
from rowtide.replication.distribution.calls.batches import COMMIT_BATCH_SIZE, COMMIT_BATCH_THRESHOLD


@pytest.mark.parametrize(
    ("option", "default"), [(CommitBatchSize, COMMIT_BATCH_SIZE), (CommitBatchThreshold, COMMIT_BATCH_THRESHOLD)]
)
def test_a_limit_of_batches_is_helped_with_its_default(option: object, default: int) -> None:
    (info,) = (one for one in get_args(option) if isinstance(one, Option))
    assert f"; {default:,} at first." in info.help
