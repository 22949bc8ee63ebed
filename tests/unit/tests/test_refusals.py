"""A table of refusals asserts what each error says: guards that raise one class would else stand in for each other."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[2]
OF_CUTS = {
    "live/merge/test_silent_networks.py": "which statement meets the silence decides what is said",
}
ANY = {"RowtideError", "Exception", "BaseException"}
OWN = {"Cut", "Interrupted"}
"""The tests' own errors, which cut work off."""


def test_tables_of_refusals_assert_the_problem() -> None:
    found = [
        f"{path.relative_to(TESTS)}:{line}"
        for path in sorted(TESTS.rglob("test_*.py"))
        if str(path.relative_to(TESTS)) not in OF_CUTS
        for line in find_unasserted(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert found == []


def test_no_test_expects_just_any_error() -> None:
    found = [
        f"{path.relative_to(TESTS)}:{node.lineno}"
        for path in sorted(TESTS.rglob("test_*.py"))
        if str(path.relative_to(TESTS)) not in OF_CUTS
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.With) and any(map(is_of_any_error, node.items))
    ]
    assert found == []


def is_of_any_error(item: ast.withitem) -> bool:
    match item:
        case ast.withitem(
            ast.Call(ast.Attribute(attr="raises"), [ast.Name(name) | ast.Attribute(attr=name)], []), None
        ):
            return name in ANY
        case _:
            return False


@pytest.mark.parametrize(
    ("error", "is_any"), [("RowtideError", True), ("rowtide.RowtideError", True), ("ValueError", False)]
)
def test_an_expectation_of_any_error_is_found(error: str, *, is_any: bool) -> None:
    (node,) = ast.parse(f"with pytest.raises({error}): f()").body
    assert isinstance(node, ast.With)
    assert [is_of_any_error(item) for item in node.items] == [is_any]


def test_a_refusal_of_a_class_alone_is_found() -> None:
    table = "@pytest.mark.parametrize('a', [1])\ndef test_it(a: int) -> None:\n    with pytest.raises({}: f(a)\n"
    texts = ["ValueError)", "ValueError, match='odd')", "ValueError) as raised", "Cut)", "errors.UndefinedColumn)"]
    assert [list(find_unasserted(ast.parse(table.format(text)))) for text in texts] == [[3], [], [], [], []]
    loop = "for call, error in calls:\n    with pytest.raises({}: call()\n"
    texts = ["error)", "error, match='odd')", "error) as raised", "ValueError)"]
    assert [list(find_unasserted(ast.parse(loop.format(text)))) for text in texts] == [[2], [], [], []]


def find_unasserted(module: ast.Module) -> Iterator[int]:
    """Yield the lines where a parametrised test expects an error of a class, and looks at nothing else of it; or a loop
    one of the class that its table has.
    """
    for loop in ast.walk(module):
        if isinstance(loop, ast.For):
            names = {node.id for node in ast.walk(loop.target) if isinstance(node, ast.Name)}
            for node in ast.walk(loop):
                if isinstance(node, ast.With):
                    yield from (item.context_expr.lineno for item in node.items if is_of_a_class_alone(item, names))
    for test in ast.walk(module):
        if not isinstance(test, ast.FunctionDef) or not any(
            "parametrize" in ast.dump(one) for one in test.decorator_list
        ):
            continue
        for node in ast.walk(test):
            if isinstance(node, ast.With):
                yield from (item.context_expr.lineno for item in node.items if is_of_a_class_alone(item))


def is_of_a_class_alone(item: ast.withitem, names: Collection[str] | None = None) -> bool:
    """Return whether an expectation names a class and nothing else; with `names`, one of these."""
    match item:
        case ast.withitem(ast.Call(ast.Attribute(attr="raises"), [error], []), None):
            is_named = names is None or (isinstance(error, ast.Name) and error.id in names)
            return is_named and not says_what_failed(error)
        case _:
            return False


def says_what_failed(error: ast.expr) -> bool:
    """Return whether a class alone does: the tests' own, and psycopg's, of which each is an SQLSTATE."""
    match error:
        case ast.Name(name):
            return name in OWN
        case ast.Attribute(ast.Name("errors") | ast.Attribute(attr="errors")):
            return True
        case _:
            return False
