"""The names of prepared transactions."""

from __future__ import annotations

from rowtide.replication.targets.postgres.progress import PREFIX, BatchName, PreparedName

NAME = PreparedName(BatchName("1f2e3d4c-5b6a-4988-8776-655443322110", 7, 12), 3)


def test_the_name_of_a_prepared_transaction_is_read_again() -> None:
    assert str(NAME) == f"{PREFIX}1f2e3d4c-5b6a-4988-8776-655443322110:7:12:3"
    assert PreparedName.parse(str(NAME)) == NAME


def test_a_prepared_transaction_is_ended_by_its_name() -> None:
    assert NAME.commits == f"commit prepared '{NAME}'"
    assert NAME.rolls_back == f"rollback prepared '{NAME}'"
