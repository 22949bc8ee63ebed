from __future__ import annotations

import pytest

from rowtide.core.lsn import Position
from rowtide.log.store.state import Reader
from rowtide.replication.distribution.delivery_interface import DeliveryProgress, resume_position


def resumed(
    held: int, reader: int, idle_from: int | None, *, batch: int = 7, cycle: int = 0, joined_at: int = 0
) -> int:
    recorded = None if idle_from is None else Position(idle_from)
    return resume_position(
        DeliveryProgress(Position(held), batch, 1), Reader(Position(reader), cycle, None, recorded), joined_at
    ).value


@pytest.mark.parametrize("held", [40, 50, 99])
def test_an_empty_log_behind_the_subscriber_is_passed(held: int) -> None:
    assert resumed(held, 100, 40) == 100


def test_a_subscriber_from_before_the_last_batch_goes_back() -> None:
    assert resumed(39, 100, 40) == 39


def test_a_subscriber_ahead_of_its_reader_goes_on_from_there() -> None:
    assert resumed(120, 100, 40) == 120


def test_as_many_batches_as_once_do_not_make_it_up_to_date() -> None:
    assert resumed(39, 100, 40, batch=7, cycle=7) == 39


@pytest.mark.parametrize(("batch", "resumes_at"), [(7, 100), (6, 40)])
def test_an_older_log_store_goes_by_batches(batch: int, resumes_at: int) -> None:
    assert resumed(40, 100, None, batch=batch, cycle=7) == resumes_at


@pytest.mark.parametrize(("idle_from", "resumes_at"), [(100, 300), (99, 100)])
def test_what_was_said_before_an_article_joined_is_not_believed(idle_from: int, resumes_at: int) -> None:
    assert resumed(100, 300, idle_from, joined_at=100) == resumes_at
