from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_configuration_page_says_what_the_code_says() -> None:
    script = ROOT / "scripts" / "configuration_reference.py"
    made = subprocess.run([sys.executable, str(script)], check=True, capture_output=True, text=True)

    assert (ROOT / "docs" / "reference" / "configuration.md").read_text(encoding="utf-8") == made.stdout
