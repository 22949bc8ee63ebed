"""The page of results is what the code says, and the code says each of them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from rowtide.diagnosis import Code

ROOT = Path(__file__).parents[3]


def test_the_page_of_results_says_what_the_code_says() -> None:
    made = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "diagnosis_reference.py")], check=True, capture_output=True, text=True
    )

    assert (ROOT / "docs" / "reference" / "diagnosis.md").read_text(encoding="utf-8") == made.stdout


def test_every_code_is_said_of_something() -> None:
    modules = (ROOT / "src" / "rowtide" / "diagnosis").rglob("*.py")
    said = {name for module in modules for name in re.findall(r"\bCode\.([A-Z_]+)\b", module.read_text("utf-8"))}
    assert said == {code.name for code in Code}
