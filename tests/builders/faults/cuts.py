"""What runs is cut off at a failpoint, as if its process had ended there; or something else happens there meanwhile."""

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


def acting_at(place: str, act: Callable[[], object]) -> Callable[[str], None]:
    """Return what to put in a module's place for `failpoint`: the first time at one of them, it does something."""
    left = [act]

    def pass_by(passed: str) -> None:
        if passed == place and left:
            left.pop()()

    return pass_by
