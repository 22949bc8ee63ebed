"""The defaults that the help names are those of the code."""

from __future__ import annotations

from typing import get_args, get_type_hints

import pytest

from rowtide.core.options import Option
from rowtide.replication.distribution.calls.batch_limits import COMMIT_BATCH_SIZE, COMMIT_BATCH_THRESHOLD
from rowtide.replication.subscription_settings import DeliveryLimits


@pytest.mark.parametrize(
    ("name", "default"), [("commit_batch_size", COMMIT_BATCH_SIZE), ("commit_batch_threshold", COMMIT_BATCH_THRESHOLD)]
)
def test_a_limit_of_batches_is_helped_with_its_default(name: str, default: int) -> None:
    hint = get_type_hints(DeliveryLimits, include_extras=True)[name]
    (said,) = (one for one in get_args(hint) if isinstance(one, Option))
    assert f"; {default:,} at first." in said.help
