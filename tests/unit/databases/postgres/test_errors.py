from __future__ import annotations

import psycopg
import pytest

from rowtide.core.errors import Remedy
from rowtide.databases.postgres.errors import find_outage, translate


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


_AT = 'connection to server at "{}", port 5432 failed: {}'
_REFUSED = 'FATAL:  no pg_hba.conf entry for host "{0}", user "app", database "shop", {1}'
_DOWN = _AT.format("::1", "Connection refused\n\tIs the server running on that host and accepting TCP/IP connections?")


def attempt(host: str, encryption: str = "no encryption") -> str:
    """Return what libpq says of an address from which the server lets nobody connect."""
    return _AT.format(host, _REFUSED.format(host, encryption))


@pytest.mark.parametrize(
    ("attempts", "number", "remedy"),
    [
        ([attempt("10.0.0.1")], 1169, Remedy.STOP),
        ([attempt("10.0.0.1", "SSL encryption"), attempt("10.0.0.1")], 1169, Remedy.STOP),
        (
            ['connection to server on socket "/run/.s.PGSQL.5432" failed: FATAL:  pg_hba.conf rejects'],
            1169,
            Remedy.STOP,
        ),
        ([attempt("10.0.0.1"), _DOWN], 1101, Remedy.RETRY),
        ([_DOWN], 1101, Remedy.RETRY),
        ([_AT.format("10.0.0.1", "FATAL:  the database system is starting up")], 1101, Remedy.RETRY),
        (["server closed the connection unexpectedly"], 1101, Remedy.RETRY),
    ],
)
def test_a_host_that_no_line_allows_needs_a_person(attempts: list[str], number: int, remedy: Remedy) -> None:
    """Where another address of the host does not answer, it may be the one that allows it."""
    found = translate(psycopg.OperationalError("connection failed: " + "\n".join(attempts)))
    assert (found.number, found.remedy) == (number, remedy)
