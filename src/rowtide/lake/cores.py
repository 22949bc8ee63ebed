"""The number of tasks that an application runs at a time, by its settings. Pure but for this machine's own number."""

from __future__ import annotations

import os
import re
from collections.abc import Callable

_LOCAL = re.compile(r"local(?:\[(?P<threads>\*|\d+)(?:,.*)?\])?")
_UNKNOWN = 50
"""A cluster that says nothing: a quarter of Spark's 200 shuffle partitions."""


def count_cores(setting: Callable[[str], str | None]) -> int:
    """Return how many tasks an application runs at a time; `setting` returns a setting of Spark's, or None."""
    given = _as_number(setting("spark.default.parallelism"))
    if given:
        return given
    local = _LOCAL.fullmatch((setting("spark.master") or "").replace(" ", ""))
    if local is not None:
        threads = local["threads"] or "1"
        return int(threads) if threads.isdigit() else os.cpu_count() or 1
    executors = setting("spark.executor.instances") or setting("spark.dynamicAllocation.maxExecutors")
    return _as_number(executors) * (_as_number(setting("spark.executor.cores")) or 1) or _UNKNOWN


def _as_number(text: str | None) -> int:
    return int(text) if text is not None and text.isdigit() else 0
