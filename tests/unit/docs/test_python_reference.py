from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_python_page_says_what_the_docstrings_say() -> None:
    made = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "python_reference.py")], check=True, capture_output=True, text=True
    )

    assert (ROOT / "docs" / "reference" / "python.md").read_text(encoding="utf-8") == made.stdout


def test_classes_that_the_python_page_names_are_there() -> None:
    page = (ROOT / "docs" / "reference" / "python.md").read_text(encoding="utf-8")
    code = "\n".join(module.read_text(encoding="utf-8") for module in (ROOT / "src").rglob("*.py"))

    named = set(re.findall(r"`([A-Z][a-z]\w+)`", page)) - {"SparkSession"}
    assert named
    assert named <= set(re.findall(r"^class (\w+)", code, re.MULTILINE))


PUBLIC = {
    "rowtide",
    *("rowtide.cdc", "rowtide.replication", "rowtide.merge", "rowtide.targets", "rowtide.tracking"),
    *("rowtide.events", "rowtide.merge.handlers", "rowtide.tracking.spark"),
}


def test_pages_import_public_names() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    imported = re.findall(r"^`?from (rowtide[\w.]*) import ([\w, ]+)`?$", text, re.MULTILINE)

    assert imported
    assert {module for module, _ in imported} <= PUBLIC
    for module, names in imported:
        assert all(hasattr(importlib.import_module(module), name.strip()) for name in names.split(","))
