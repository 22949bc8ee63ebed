"""The pages on pains and on hostile roles name tests that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGES = ROOT / "docs" / "explanation"


@pytest.mark.parametrize("page", ["pains.md", "rights.md"])
def test_every_sentence_is_watched_by_a_test_that_exists(page: str) -> None:
    defined = {
        name
        for module in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"def (test_\w+)", module.read_text(encoding="utf-8"))
    }
    lines = (PAGES / page).read_text(encoding="utf-8").splitlines()
    rows = [line for line in lines if line.startswith("| ") and not line.endswith("| watched by |")]
    watched = [set(re.findall(r"`(test_\w+)`", row)) for row in rows]
    assert all(watched)
    assert set().union(*watched) <= defined
