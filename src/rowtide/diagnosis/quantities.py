"""Amounts as people read them."""

from __future__ import annotations

_BYTE_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")
_TIME_UNITS = ((86_400.0, "days"), (3_600.0, "hours"), (60.0, "minutes"))


def format_bytes(count: float) -> str:
    """Return a number of bytes in the largest unit of which there is one."""
    power = 0
    while count >= 1024 and power < len(_BYTE_UNITS) - 1:
        count, power = count / 1024, power + 1
    return f"{_rounded(count)} {_BYTE_UNITS[power]}"


def format_duration(seconds: float) -> str:
    """Return a time in the largest unit of which there are two."""
    for length_s, name in _TIME_UNITS:
        if seconds >= 2 * length_s:
            return f"{_rounded(seconds / length_s)} {name}"
    return f"{_rounded(seconds)} s"


def format_names(names: tuple[str, ...], *, most: int = 10) -> str:
    """Return names in a row; of very many the first, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _rounded(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0") if value < 100 else f"{value:.0f}"
