"""Targets: tables that follow captured tables, current rows (SCD type 1) or their history (SCD type 2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowtide.core.exports import exporting

if TYPE_CHECKING:
    from rowtide.targets.api import Targets
    from rowtide.targets.applying import SetVersion, TableVersion
    from rowtide.targets.custom import CustomTarget, CustomWindow
    from rowtide.targets.definitions import TableState
    from rowtide.targets.listing import ListedTarget
    from rowtide.targets.options import ApplyEngine, NewTarget, TargetFormat, TargetOptions, Truncation
    from rowtide.targets.widening_removal import MendedTarget

__all__ = [
    "ApplyEngine",
    "CustomTarget",
    "CustomWindow",
    "ListedTarget",
    "MendedTarget",
    "NewTarget",
    "SetVersion",
    "TableState",
    "TableVersion",
    "TargetFormat",
    "TargetOptions",
    "Targets",
    "Truncation",
]

_HOMES = {
    "ApplyEngine": "rowtide.targets.options",
    "CustomTarget": "rowtide.targets.custom",
    "CustomWindow": "rowtide.targets.custom",
    "ListedTarget": "rowtide.targets.listing",
    "MendedTarget": "rowtide.targets.widening_removal",
    "NewTarget": "rowtide.targets.options",
    "SetVersion": "rowtide.targets.applying",
    "TableState": "rowtide.targets.definitions",
    "TableVersion": "rowtide.targets.applying",
    "TargetFormat": "rowtide.targets.options",
    "TargetOptions": "rowtide.targets.options",
    "Targets": "rowtide.targets.api",
    "Truncation": "rowtide.targets.options",
}

if not TYPE_CHECKING:
    __getattr__, __dir__ = exporting(__name__, _HOMES)
