from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_python_page_says_what_the_docstrings_say() -> None:
    made = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "python_reference.py")], check=True, capture_output=True, text=True
    )

    assert (ROOT / "docs" / "reference" / "python.md").read_text(encoding="utf-8") == made.stdout
