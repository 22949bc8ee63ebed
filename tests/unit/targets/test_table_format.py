"""A format is a member and a module of its name, and nothing else asks which format a target has."""

from __future__ import annotations

import ast
from inspect import signature
from pathlib import Path

import pytest

from rowtide.targets import table_format as table_format_module
from rowtide.targets.definitions import require_valid
from rowtide.targets.errors import TargetInvalid
from rowtide.targets.options import CURRENT, TargetFormat, TargetOptions
from rowtide.targets.table_format import TableFormat, module_of, table_format

SOURCE = Path(__file__).parents[3] / "src" / "rowtide"
FORMATS = SOURCE / "targets" / "formats"


def test_each_format_has_the_module_of_its_name() -> None:
    assert {path.stem for path in FORMATS.glob("[!_]*.py")} == set(TargetFormat)
    for target_format in TargetFormat:
        assert isinstance(table_format(target_format), TableFormat)
        parameters = [name.lstrip("_") for name in signature(module_of(target_format).open_table).parameters]
        assert parameters == ["spark", "target", "instance", "verify", "known"]


def test_no_module_compares_formats() -> None:
    named = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if not path.is_relative_to(FORMATS)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "TargetFormat"
    }
    assert named == {"targets/options.py"}, "the default"


def test_what_a_format_cannot_do_is_asked_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    options = TargetOptions(path="/lake", cluster_by=("name",))
    require_valid("now", CURRENT, options)
    lesser = TableFormat(title="Hudi", noun="a Hudi table")
    monkeypatch.setattr(table_format_module, "module_of", lambda _format: type("Module", (), {"FORMAT": lesser}))
    with pytest.raises(TargetInvalid, match="Hudi tables are not clustered"):
        require_valid("now", CURRENT, options)
