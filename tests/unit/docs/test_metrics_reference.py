"""The page of metrics is what the code says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_page_of_metrics_says_what_the_code_says() -> None:
    made = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "metrics_reference.py")], check=True, capture_output=True, text=True
    )

    assert (ROOT / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8") == made.stdout
