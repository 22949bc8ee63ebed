"""The page of declared state is what the options are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_page_of_declared_state_says_what_the_code_says() -> None:
    made = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "declared_reference.py")], check=True, capture_output=True, text=True
    )

    assert (ROOT / "docs" / "reference" / "declared-state.md").read_text(encoding="utf-8") == made.stdout
