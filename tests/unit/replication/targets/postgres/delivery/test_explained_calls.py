"""What is said of a call that a subscriber refused."""

from __future__ import annotations

import pytest

from builders.capture.capture_instances import source_table
from builders.replication.articles import article
from rowtide.core.operations import Operation
from rowtide.replication.distribution.calls.ordered import ProcedureCall
from rowtide.replication.errors.delivery import CommandRefused
from rowtide.replication.targets.postgres.delivery.pipeline import FailedStatement, explain_call

LINES = article(source_table([("id", "integer"), ("name", "text"), ("note", "text")], name="lines", key=("id",)))
EURO, UMLAUT = "€".encode(), "ü".encode()


@pytest.mark.parametrize(
    ("arguments", "codec", "said"),
    [
        ((b"1", b"plain", EURO), "latin-1", "no character, in column note"),
        ((b"1", EURO, EURO), "latin-1", "no character, in column name, note"),
        ((b"1", None, UMLAUT), "latin-1", "no character"),
        ((b"1", None, UMLAUT), "ascii", "no character, in column note"),
        ((b"1", EURO, None), None, "no character"),
        # The row before it follows: its columns are the same.
        ((b"1", None, None, b"1", EURO, None), "latin-1", "no character, in column name"),
    ],
)
def test_columns_of_a_lacking_character_are_named(
    arguments: tuple[bytes | None, ...], codec: str | None, said: str
) -> None:
    call = ProcedureCall(500, 2, LINES, Operation.INSERT, [*arguments])
    refused = explain_call(FailedStatement(0, "22P05", "no character"), call, codec)

    assert isinstance(refused, CommandRefused)
    assert (refused.sqlstate, refused.reason) == ("22P05", said)


def test_other_refusals_name_no_column() -> None:
    call = ProcedureCall(500, 2, LINES, Operation.INSERT, [b"1", EURO, None])
    refused = explain_call(FailedStatement(0, "23514", "no"), call, "ascii")
    assert isinstance(refused, CommandRefused)
    assert refused.reason == "no"
