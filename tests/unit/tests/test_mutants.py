"""The faults of `make mutants` are what they say, and those that are listed as none are still in the source."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import rowtide
from mutants.changes import list_mutants, outermost_functions
from mutants.equivalents import EQUIVALENT
from mutants.packages import PACKAGES

SOURCES = Path(rowtide.__file__).parent


def faults(body: str) -> set[tuple[str, str]]:
    return {(mutant.was, mutant.becomes) for mutant in list_mutants("m.py", f"def f(a, b):\n    {body}\n")}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("if a < b: pass", {("a < b", "a <= b"), ("a < b", "a >= b")}),
        ("a = b is None", {("b is None", "b is not None")}),
        ("c = a and b", {("a and b", "(a or b)")}),
        ("c = not a", {("not a", "bool(a)")}),
        ("c = 4", {("4", "5")}),
        ("c = True", {("True", "False")}),
        ("c = a - 1", {("a - 1", "(a + 1)"), ("1", "2")}),
        ("c = a(b, 'x')", {("a(b, 'x')", "a('x', b)")}),
        ("a(b)", {("a(b)", "pass")}),
        ("a.b = b", {("a.b = b", "pass")}),
        ("return a", {("a", "None")}),
        ("raise a", {("raise a", "pass")}),
    ],
)
def test_each_kind_of_fault(body: str, expected: set[tuple[str, str]]) -> None:
    assert faults(body) == expected


@pytest.mark.parametrize(
    "body",
    [
        "'a text'",
        "log.info('event', rows=1)",
        "assert a < b",
        "a = f'{a < b}'",
        "a = max(a, b)",
        "a = zip(b, strict=True)",
        "failpoint('a')",
    ],
)
def test_what_decides_nothing_has_no_fault(body: str) -> None:
    assert faults(body) == set()


def test_functions_and_methods_have_qualified_names() -> None:
    module = ast.parse(
        "def f(): pass\nclass A:\n    def g(self):\n        def h(): pass\n    class B:\n        def g(self): pass"
    )
    assert [name for name, _ in outermost_functions(module.body)] == ["f", "A.g", "A.B.g"]


def test_a_fault_changes_only_its_own_text() -> None:
    source = "class K:\n    def größe(self) -> bool:\n        return self.ä < 1  # ü\n"
    texts = [mutant.apply_to(source) for mutant in list_mutants("m.py", source)]
    assert "class K:\n    def größe(self) -> bool:\n        return self.ä <= 1  # ü\n" in texts
    assert len({*texts, source}) == len(texts) + 1


@pytest.mark.parametrize("name", PACKAGES)
def test_every_fault_of_a_package_can_be_compiled(name: str) -> None:
    paths = [path for source in PACKAGES[name].sources for path in (SOURCES / source).rglob("*.py")]
    assert paths
    for path in paths:
        source = path.read_text(encoding="utf-8")
        for mutant in list_mutants(path.name, source)[::20]:
            ast.parse(mutant.apply_to(source))


def test_faults_listed_as_none_are_in_the_source() -> None:
    known = {
        mutant.key
        for path in {key[0] for key in EQUIVALENT}
        for mutant in list_mutants(path, (SOURCES / path).read_text(encoding="utf-8"))
    }
    assert known >= EQUIVALENT.keys()
