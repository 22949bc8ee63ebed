"""A name of a test is a short sentence."""

from __future__ import annotations

import ast
from pathlib import Path

TESTS = Path(__file__).parents[2]
MOST_CHARACTERS = 60


def test_names_of_tests_have_at_most_60_characters() -> None:
    names = [
        (str(module.relative_to(TESTS)), node.name)
        for module in TESTS.rglob("test_*.py")
        for node in ast.walk(ast.parse(module.read_bytes()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    ]
    assert names
    assert [(module, name) for module, name in names if len(name) > MOST_CHARACTERS] == []
