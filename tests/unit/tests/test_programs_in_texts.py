"""Programs that tests, pages and the container file have as text import what is there, which mypy does not see."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PACKAGES = ("rowtide", "builders", "fixtures", "benchmarks")
IMPORT = re.compile(rf"from ((?:{'|'.join(PACKAGES)})\b[\w.]*) import (\([^)]*\)|[\w, ]+)")
PLACES = ("src", "tests", "scripts", "benchmarks", "docs", "README.md", "Containerfile", "Makefile")


def texts() -> Iterator[tuple[Path, str]]:
    """Yield the texts that may have programs: the literals of Python's files, and all other files whole."""
    for place in PLACES:
        for path in sorted([ROOT / place] if (ROOT / place).is_file() else (ROOT / place).rglob("*")):
            if path.suffix == ".py":
                source = path.read_text(encoding="utf-8")
                for node in ast.walk(ast.parse(source)) if len(IMPORT.findall(source)) else ():
                    if isinstance(node, ast.Constant) and isinstance(node.value, str):
                        yield path, node.value
            elif path.is_file() and path.suffix in (".md", ".sh", ".toml", ".yml", ""):
                yield path, path.read_text(encoding="utf-8", errors="replace")


@cache
def imports() -> Mapping[tuple[str, str], Path]:
    """Return the imported names, by module and name, and a file that has each."""
    found: dict[tuple[str, str], Path] = {}
    for path, text in texts():
        for module, names in IMPORT.findall(text):
            for name in names.strip("()").replace("\n", " ").split(","):
                if name.strip():
                    found[(module, name.split(" as ")[0].strip())] = path
    return found


def is_there(module: str, name: str) -> bool:
    try:
        if hasattr(importlib.import_module(module), name):
            return True
        importlib.import_module(f"{module}.{name}")
    except ModuleNotFoundError:
        return False
    return True


@pytest.mark.parametrize("module", sorted({module for module, _ in imports()}))
def test_texts_import_what_is_there(module: str) -> None:
    missing = {name: path for (found, name), path in imports().items() if found == module and not is_there(found, name)}
    assert not missing
