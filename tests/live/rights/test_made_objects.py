"""docs/reference/objects.md lists what rowtide creates in PostgreSQL, with its grants, on each version."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "reference" / "objects.md"


@pytest.mark.parametrize("version", [pytest.param("16", marks=pytest.mark.exhaustive), "18"])
def test_the_page_lists_all_objects_that_are_made(version: str) -> None:
    script = str(ROOT / "scripts" / "object_reference.py")
    made = subprocess.run([sys.executable, script, version], check=True, capture_output=True, text=True)

    assert PAGE.read_text(encoding="utf-8") == made.stdout


def test_functions_with_their_owners_rights_have_a_path() -> None:
    definers = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if "| its owner's |" in line]

    assert definers
    assert all("| `pg_catalog, pg_temp` |" in line for line in definers)
