from __future__ import annotations

import pytest

from rowtide.core.errors import Remedy
from rowtide.databases.postgres.errors import find_outage


@pytest.mark.parametrize(
    ("sqlstate", "number"),
    [
        ("53100", 7180),
        ("53200", 7180),
        ("58030", 7180),
        ("40001", 7181),
        ("40P01", 7181),
        ("57014", 1041),
        ("25006", 1042),
    ],
)
def test_what_is_not_the_statements_fault_is_tried_again(sqlstate: str, number: int) -> None:
    found = find_outage(sqlstate, "a reason")
    assert found is not None
    assert (found.number, found.remedy) == (number, Remedy.RETRY)


def test_an_object_that_was_dropped_meanwhile_is_read_again() -> None:
    found = find_outage("XX000", "could not open relation with OID 16712")
    assert found is not None
    assert (found.number, found.remedy) == (7181, Remedy.RETRY)
    assert find_outage("XX000", "invalid memory alloc request size 1073741824") is None


@pytest.mark.parametrize("sqlstate", ["23505", "42P01", "22000", "55006"])
def test_a_statements_own_error_is_no_outage(sqlstate: str) -> None:
    assert find_outage(sqlstate, "a reason") is None
