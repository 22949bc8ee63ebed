from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_page_of_events_says_what_the_catalogue_says() -> None:
    made = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "log_reference.py")], check=True, capture_output=True, text=True
    )

    assert (ROOT / "docs" / "reference" / "log-events.md").read_text(encoding="utf-8") == made.stdout
