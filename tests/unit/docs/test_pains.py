"""The page on pains names tests that are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "explanation" / "pains.md").read_text(encoding="utf-8")


def test_every_pain_is_watched_by_a_test_that_exists() -> None:
    defined = {
        name
        for module in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"def (test_\w+)", module.read_text(encoding="utf-8"))
    }
    rows = [line for line in PAGE.splitlines() if line.startswith("| ")][1:]
    watched = [set(re.findall(r"`(test_\w+)`", row)) for row in rows]
    assert all(watched)
    assert set().union(*watched) <= defined
