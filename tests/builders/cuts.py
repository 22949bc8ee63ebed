"""What runs is cut off at a failpoint, as if its process had ended there."""

from __future__ import annotations

from collections.abc import Callable


class Cut(Exception):
    """It was cut off here."""


def cut_at(place: str) -> Callable[[str], None]:
    """Return what to put in a module's place for `failpoint`: it raises `Cut` at one of them."""

    def cut(passed: str) -> None:
        if passed == place:
            raise Cut

    return cut
