"""Targets of a captured database, and what their tables hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from builders.capture.captured_databases import CapturedDatabase
from rowtide.handle import connect
from rowtide.targets import SetVersion, Targets


class AppliedTargets:
    """The targets of a database, under a folder beside its lake."""

    def __init__(self, captured: CapturedDatabase) -> None:
        self.captured = captured
        self.targets: Targets = connect(captured.url).targets
        self.folder: Path = captured.lake.parent / "targets"

    def add(self, name: str, *instances: str, kind: str = "current", **options: Any) -> None:
        """Define a target with a folder of its own."""
        self.targets.add(name, instances, kind=kind, **{"path": str(self.folder / name), **options})

    def follow(self) -> dict[str, SetVersion]:
        """Capture what is committed, and apply it to all targets."""
        self.captured.capture()
        return self.targets.apply(spark=self.captured.spark)

    def follow_directly(self) -> None:
        """Capture what is committed, and apply it to tables that need no Spark."""
        self.captured.capture()
        self.targets.apply()
        assert set(self.notes().values()) == {None}

    def rows(self, name: str, instance: str, *columns: str, where: str = "true") -> list[tuple[Any, ...]]:
        """Return columns, by default all, of the rows of a target's table that meet a condition, in their order."""
        found = self.targets.read(name, instance, spark=self.captured.spark).where(where)
        chosen = found.select(*(f"`{column}`" for column in columns)) if columns else found
        return sorted((tuple(row) for row in chosen.collect()), key=repr)

    def notes(self) -> dict[str, str | None]:
        """Return why tables have stopped, by instance; None for those that have not in any target."""
        listed = sorted(self.targets.list_targets(), key=lambda table: table.note is not None)
        return {table.instance: table.note for table in listed}
