"""Mutants that do what the code does: no test can notice them."""

from __future__ import annotations

EQUIVALENT: dict[tuple[str, str, str, str], str] = {
    (
        "log/store/replay.py",
        "_append_range",
        "_later(state.as_of, entry.as_of)",
        "_later(entry.as_of, state.as_of)",
    ): "the later of two times, in either order",
    (
        "log/store/replay.py",
        "_advance_reader",
        "_later(known.as_of, entry.as_of)",
        "_later(entry.as_of, known.as_of)",
    ): "the later of two times, in either order",
    (
        "log/store/replay.py",
        "_advance_reader",
        "max(known.position, position)",
        "max(position, known.position)",
    ): "the larger of two positions, in either order",
    (
        "log/store/replay.py",
        "_advance_reader",
        "max(known.cycle, entry.cycle)",
        "max(entry.cycle, known.cycle)",
    ): "the larger of two numbers, in either order",
    (
        "log/store/replay.py",
        "_truncate",
        "max(state.low, min(entry.position, slowest))",
        "max(min(entry.position, slowest), state.low)",
    ): "the larger of two positions, in either order",
    (
        "log/store/replay.py",
        "_truncate",
        "min(entry.position, slowest)",
        "min(slowest, entry.position)",
    ): "the smaller of two positions, in either order",
    (
        "log/store/manifest.py",
        "Manifest._checkpoint",
        "oldest + 1",
        "(oldest - 1)",
    ): "entries up to the oldest checkpoint are deleted already, and what is gone may be deleted again",
    ("log/store/segments.py", "_encode", "1", "2"): "how hard zstd tries: the rows are the same",
}
"""Path, outermost function, text, replaced text; and why it is the same."""
