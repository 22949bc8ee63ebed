"""Options of capture that change how it works, not what it publishes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class EngineSetting(StrEnum):
    """Which cycles Spark converts: `SPARK` all of them, `AUTO` those that are large."""

    AUTO = "auto"
    SPARK = "spark"


@dataclass(frozen=True, slots=True)
class CaptureOptions:
    """The engine; with `rewrites_widened`, tables whose columns get wider types are rewritten, whatever the settings
    say, and those that are marked with Delta's type widening, which few readers know, are mended.
    """

    engine: EngineSetting = EngineSetting.AUTO
    rewrites_widened: bool = False


USUAL = CaptureOptions()
