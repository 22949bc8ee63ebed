"""Options of capture that change how it works, not what it publishes."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from rowtide.cdc.errors.capturing import MaxLatencyInvalid
from rowtide.cdc.scans.pace import USUAL_LATENCY_S
from rowtide.core.values import frozen
from rowtide.core.words import read_words

LONGEST_LATENCY_S: Final = 3600.0
"""What capture remembers of a lake's tables lasts no longer."""


class EngineSetting(StrEnum):
    """Which cycles Spark converts: `SPARK` all of them, `AUTO` those that are large."""

    AUTO = "auto"
    SPARK = "spark"


@frozen
class CaptureOptions:
    """The engine; with `rewrites_widened`, tables whose columns get wider types are rewritten, whatever the settings
    say, and those that are marked with Delta's type widening, which few readers know, are mended.

    `max_latency_s`: in a bucket cycles come later the more tables change, to save requests, but not by more.
    """

    engine: EngineSetting = EngineSetting.AUTO
    rewrites_widened: bool = False
    max_latency_s: float = USUAL_LATENCY_S

    def __post_init__(self) -> None:
        read_words(self)
        if not 0 <= self.max_latency_s <= LONGEST_LATENCY_S:
            raise MaxLatencyInvalid(self.max_latency_s)


USUAL = CaptureOptions()
