"""Stamps of the columns changed in a SQLite file, as one text of 16 hexadecimal digits per column, in column order."""

from __future__ import annotations

from collections.abc import Sequence

from rowtide.merge.articles import Article

_HEX = 16
_NONE = "0" * _HEX


def encode_own_columns(article: Article, stamps: dict[int, int]) -> str:
    """Return stamps of columns as triggers write them."""
    return "".join(f"{stamps.get(place, 0):0{_HEX}x}" for place in range(len(article.columns)))


def moved(kept: Sequence[int]) -> str:
    """Return the expression that has the stamps of the columns at some places alone, in this order."""
    pieces = (f"coalesce(nullif(substr(own_columns, {place * _HEX + 1}, {_HEX}), ''), '{_NONE}')" for place in kept)
    return " || ".join(pieces)


def stamped(columns: int) -> str:
    """Return the expression that stamps all columns with the row's own stamp."""
    return " || ".join([f"printf('%0{_HEX}x', stamp)"] * columns)


def renewed(changed: Sequence[str]) -> str:
    """Return the expression that stamps columns whose conditions hold with `l.stamp`, and keeps the others."""
    return " || ".join(
        f"case when {condition} then printf('%0{_HEX}x', l.stamp) "
        f"else coalesce(nullif(substr(c.own_columns, {place * _HEX + 1}, {_HEX}), ''), '{_NONE}') end"
        for place, condition in enumerate(changed)
    )
