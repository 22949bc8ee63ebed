from __future__ import annotations

from typing import get_args

import pytest

from rowtide.cdc.cleanup.cleanup import Refusal
from rowtide.cdc.cleanup.housekeeping import CleanupOutcome
from rowtide.core.json_records import JsonOf


@pytest.mark.parametrize("kind", get_args(Refusal))
def test_a_refusal_is_raised_where_the_cleanup_was_requested(kind: type[Refusal]) -> None:
    refusal = kind(*(f"a {name}" for name in kind.field_names))
    stored = JsonOf[CleanupOutcome](CleanupOutcome)
    with pytest.raises(kind) as raised:
        stored.decode(stored.encode(CleanupOutcome.of(refusal))).require()
    assert str(raised.value) == str(refusal)
