"""Garbage is collected between batches while anybody works on batches, and as before then."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from rowtide.core.garbage import collect, collecting_between_batches


class Circle:
    """Refers to itself."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def _enabled() -> Iterator[None]:
    gc.enable()
    yield
    gc.enable()


def test_the_collector_is_off_until_the_last_has_left() -> None:
    with collecting_between_batches():
        with collecting_between_batches():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_it_is_on_again_behind_an_error() -> None:
    with pytest.raises(KeyError), collecting_between_batches():
        raise KeyError
    assert gc.isenabled()


def test_circles_are_found_between_batches() -> None:
    with collecting_between_batches():
        seen = weakref.ref(Circle())
        assert seen() is not None
        collect()
        assert seen() is None


def test_who_has_switched_it_off_finds_it_off() -> None:
    gc.disable()
    with collecting_between_batches():
        seen = weakref.ref(Circle())
        collect()
        assert seen() is not None
    assert not gc.isenabled()
