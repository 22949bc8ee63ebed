from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_error_page_says_what_the_code_says() -> None:
    made = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "error_reference.py")], check=True, capture_output=True, text=True
    )

    assert (ROOT / "docs" / "reference" / "errors.md").read_text(encoding="utf-8") == made.stdout
