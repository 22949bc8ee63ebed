"""The errors that docstrings of the public API name: something that its feature can reach uses them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import grimp
import pytest

SOURCE = Path(__file__).parents[3] / "src"
RAISES = re.compile(r"Raises? .*?(?=\.\s|\.$|\Z)", re.DOTALL)
NAME = re.compile(r"`([A-Z]\w+)`")


def parse(module: str) -> ast.Module:
    """Return the syntax tree of a module."""
    path = SOURCE.joinpath(*module.split("."))
    return ast.parse((path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text(encoding="utf-8"))


def documented_errors(module: str) -> Iterator[tuple[str, str]]:
    """Yield the errors that a module's docstrings name, each with its function."""
    for node in ast.walk(parse(module)):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            for sentence in RAISES.findall(ast.get_docstring(node) or ""):
                yield from ((node.name, name) for name in NAME.findall(sentence))


def used_names(module: str) -> set[str]:
    """Return the names that a module uses, for more than to import them."""
    names = {node.id for node in ast.walk(parse(module)) if isinstance(node, ast.Name)}
    return names | {node.attr for node in ast.walk(parse(module)) if isinstance(node, ast.Attribute)}


@pytest.mark.parametrize("feature", ["cdc", "merge", "replication", "tracking"])
def test_the_api_documents_only_errors_that_can_be_raised(feature: str) -> None:
    api = f"rowtide.{feature}.api"
    documented = set(documented_errors(api))
    graph = grimp.build_graph("rowtide", cache_dir=None)
    # Those of one kind of database are imported by their names.
    reached = graph.find_upstream_modules(api) | graph.find_descendants(f"rowtide.{feature}")
    usable = used_names(api).union(*map(used_names, reached))

    assert documented
    assert {found for found in documented if found[1] not in usable} == set()
