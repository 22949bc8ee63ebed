"""The collector runs rarely while anybody works on many rows, and as before then."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from rowtide.core.garbage_collection import OBJECTS_BETWEEN_COLLECTIONS, collecting_rarely

USUAL = (700, 10, 10)


@pytest.fixture(autouse=True)
def _usual() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(*USUAL)
    yield
    gc.set_threshold(*before)


def test_it_runs_rarely_until_the_last_has_left() -> None:
    rarely = (OBJECTS_BETWEEN_COLLECTIONS, *USUAL[1:])
    with collecting_rarely():
        with collecting_rarely():
            assert gc.get_threshold() == rarely
        assert gc.get_threshold() == rarely
    assert gc.get_threshold() == USUAL


def test_it_runs_as_before_behind_an_error() -> None:
    with pytest.raises(KeyError), collecting_rarely():
        raise KeyError
    assert gc.get_threshold() == USUAL


@pytest.mark.parametrize("first", [0, 10 * OBJECTS_BETWEEN_COLLECTIONS])
def test_who_wants_it_off_or_more_rarely_has_it_so(first: int) -> None:
    gc.set_threshold(first)
    with collecting_rarely():
        assert gc.get_threshold()[0] == first
    assert gc.get_threshold()[0] == first
