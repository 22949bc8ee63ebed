"""A test lies where the sentence of tests/README.md says: by its level, then by the package that it is about."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import rowtide

TESTS = Path(__file__).parents[2]
SOURCES = Path(rowtide.__file__).parent
LEVELS = ("unit", "integration", "conformance", "live", "properties", "scenarios")
OF_NO_PACKAGE = {("unit", "docs"), ("unit", "tests"), ("live", "rights")}
"""What is about the pages, the tests themselves, and what each role may do in any package."""
NEVER = {"unit": {"live", "spark"}, "integration": {"live"}}
"""What tests of a level do not need: see `NEEDS` in conftest.py."""


def list_modules() -> list[Path]:
    return sorted(path.relative_to(TESTS) for path in TESTS.rglob("test_*.py"))


def test_each_test_lies_below_its_level_and_package() -> None:
    packages = {path.stem for path in SOURCES.iterdir() if path.is_dir() or path.suffix == ".py"}
    placed = {module: module.parts[:2] for module in list_modules()}
    assert len(placed) > len(LEVELS)
    assert [
        str(module)
        for module, (level, package) in placed.items()
        if level not in LEVELS or (package not in packages and (level, package) not in OF_NO_PACKAGE)
    ] == []


def test_unit_tests_mirror_the_packages() -> None:
    folders = {module.parent.relative_to("unit") for module in list_modules() if module.is_relative_to("unit")}
    mirrored = {folder for folder in folders if ("unit", folder.parts[0]) not in OF_NO_PACKAGE}
    assert mirrored
    assert [str(folder) for folder in sorted(mirrored) if not is_source(folder)] == []


def is_source(folder: Path) -> bool:
    """Whether a package has this place, or a module that is one by itself."""
    return (SOURCES / folder).is_dir() or (SOURCES / folder).with_suffix(".py").is_file()


def test_no_level_needs_more_than_it_says(request: pytest.FixtureRequest) -> None:
    needs = [
        (item.nodeid, marker.name)
        for item in request.session.items
        for marker in item.iter_markers()
        if marker.name in NEVER.get(item.path.relative_to(TESTS).parts[0], ())
    ]
    assert needs == []


def test_property_tests_draw_their_histories() -> None:
    modules = [module for module in list_modules() if module.is_relative_to("properties")]
    assert modules
    assert [
        str(module) for module in modules if not re.search(r"\b(hypothesis|[Rr]andom)\b", read_closure(module))
    ] == []


def read_closure(module: Path) -> str:
    """Return the text of a module and of the builders that it imports, directly or not."""
    texts: dict[Path, str] = {}
    left = [TESTS / module]
    while left:
        path = left.pop()
        if path not in texts and path.exists():
            texts[path] = path.read_text(encoding="utf-8")
            imported = re.findall(r"^from (builders[\w.]+) import", texts[path], re.MULTILINE)
            left += [TESTS / f"{name.replace('.', '/')}.py" for name in imported]
    return "".join(texts.values())


def test_readme_lists_the_levels() -> None:
    readme = (TESTS / "README.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^\| `(\w+)` \|", readme, re.MULTILINE)) == sorted(LEVELS)
