from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_type_page_matches_the_catalogue_and_the_code() -> None:
    made = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "type_reference.py")], check=True, capture_output=True, text=True
    )

    assert (ROOT / "docs" / "reference" / "types.md").read_text(encoding="utf-8") == made.stdout
