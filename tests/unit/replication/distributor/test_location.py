"""Statements about the distribution database run where it is."""

from __future__ import annotations

import ast
from pathlib import Path

from rowtide.replication import distributor

AT_THE_PUBLISHER = {"announce_token", "_places", "_key_of", "application_name"}
"""What such a module writes to the publisher's log, and reads and locks there: it finds the distribution database."""


def test_modules_with_its_tables_ask_the_distributor() -> None:
    astray = [
        f"{module.name}:{call.lineno}"
        for module in Path(distributor.__file__).parent.glob("*.py")
        if "    metadata,\n" in (source := module.read_text())
        for call in ast.walk(ast.parse(source))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr in ("execute", "scalar", "scalars")
        and isinstance(call.func.value, ast.Name)
        and call.func.value.id == "connection"
        and not any(name in ast.unparse(call) for name in AT_THE_PUBLISHER)
    ]
    assert astray == []
