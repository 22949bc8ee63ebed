"""The page of grants is the list's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_page_is_made_of_the_list() -> None:
    made = subprocess.run(
        [sys.executable, "scripts/grants_reference.py"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert (ROOT / "docs/reference/grants.md").read_text() == made
