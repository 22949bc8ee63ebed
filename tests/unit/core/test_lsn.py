from __future__ import annotations

import pickle
from collections.abc import Callable

import pytest
from hypothesis import given, strategies as st

from rowtide.core.errors import InvalidLsn
from rowtide.core.lsn import (
    EPOCH_SHIFT,
    MAX_EPOCH,
    CommitLsn,
    Position,
    format_log_position,
    pack_lsn,
    parse_log_position,
)

HIGHEST_LOG = (1 << EPOCH_SHIFT) - 1
HIGHEST = (1 << 63) - 1

PRINTED = [
    ("0/0", 0),
    ("0/64", 100),
    ("0/FFFFFFFF", (1 << 32) - 1),
    ("1/0", 1 << 32),
    ("16/B374D848", 0x16_B374D848),
    ("FFFFFF/FFFFFFFF", HIGHEST_LOG),
    ("1:0/0", 1 << 56),
    ("3:1/A", 3 << 56 | 1 << 32 | 10),
    ("127:FFFFFF/FFFFFFFF", HIGHEST),
]


@pytest.mark.parametrize(("text", "value"), PRINTED)
def test_lsn_text_is_the_database_format_with_epoch_prefix(text: str, value: int) -> None:
    assert str(CommitLsn(value)) == str(Position(value)) == text
    assert CommitLsn.parse(text) == CommitLsn(value)


@pytest.mark.parametrize(
    ("text", "value"),
    [("0", 0), ("100", 100), (str(HIGHEST), HIGHEST), (" 0/64\n", 100), ("0:0/64", 100), ("a/b", 10 << 32 | 11)],
)
def test_an_lsn_is_also_read_as_queries_and_people_write_it(text: str, value: int) -> None:
    assert CommitLsn.parse(text) == CommitLsn(value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "/",
        "1/",
        "/1",
        "1/2/3",
        "0/G",
        "0/100000000",
        "100000000/0",
        "-1/0",
        "0/-1",
        "-1",
        str(HIGHEST + 1),
        "1000000/0",
        "128:0/0",
        "-1:0/0",
        "x:0/0",
        "1:2:0/0",
        "1:5",
    ],
)
def test_what_is_no_lsn_is_refused(text: str) -> None:
    with pytest.raises(InvalidLsn, match="RT-1001"):
        CommitLsn.parse(text)


@given(st.integers(0, HIGHEST))
def test_every_lsn_comes_back_from_its_text_and_from_its_parts(value: int) -> None:
    lsn = CommitLsn(value)

    assert CommitLsn.parse(str(lsn)) == CommitLsn.parse(str(value)) == CommitLsn.of(lsn.epoch, lsn.log) == lsn
    assert int(lsn) == value


@given(st.integers(0, (1 << 64) - 1))
def test_log_positions_round_trip_through_their_text(log: int) -> None:
    assert parse_log_position(format_log_position(log)) == log


@given(st.tuples(st.integers(0, MAX_EPOCH), st.integers(0, HIGHEST_LOG)), st.data())
def test_lsns_order_by_epoch_then_log(first: tuple[int, int], data: st.DataObject) -> None:
    second = data.draw(st.tuples(st.integers(0, MAX_EPOCH), st.integers(0, HIGHEST_LOG)))

    assert (pack_lsn(*first) < pack_lsn(*second)) == (first < second)
    assert (CommitLsn.of(*first) < CommitLsn.of(*second)) == (first < second)


@pytest.mark.parametrize(("epoch", "log"), [(-1, 0), (MAX_EPOCH + 1, 0), (0, -1), (0, HIGHEST_LOG + 1)])
def test_what_does_not_fit_is_not_packed(epoch: int, log: int) -> None:
    with pytest.raises(InvalidLsn, match=f'"{epoch}:{log}" is not an LSN'):
        pack_lsn(epoch, log)


@pytest.mark.parametrize("kind", [CommitLsn, Position])
@pytest.mark.parametrize("value", [-1, HIGHEST + 1])
def test_a_value_outside_a_signed_64_bit_integer_is_refused(kind: Callable[[int], object], value: int) -> None:
    with pytest.raises(InvalidLsn, match=f'"{value}" is not an LSN'):
        kind(value)


def test_increment_and_decrement_are_the_neighbours() -> None:
    lsn = CommitLsn.of(2, 100)

    assert (str(lsn.increment()), str(lsn.decrement())) == ("2:0/65", "2:0/63")
    assert lsn.increment().decrement() == lsn


def test_there_is_nothing_above_the_highest_nor_below_zero() -> None:
    with pytest.raises(InvalidLsn):
        CommitLsn(HIGHEST).increment()
    with pytest.raises(InvalidLsn):
        CommitLsn(0).decrement()


def test_a_commit_lsn_and_a_position_are_never_equal_nor_ordered() -> None:
    lsn, position = CommitLsn(100), Position(100)

    assert len({lsn, position}) == 2
    assert lsn.__eq__(position) is NotImplemented
    with pytest.raises(TypeError):
        assert lsn < position  # type: ignore[operator]
    with pytest.raises(TypeError):
        assert position >= lsn  # type: ignore[operator]


@pytest.mark.parametrize("other", [100, "0/64", None])
def test_an_lsn_is_no_integer_and_no_text(other: object) -> None:
    assert CommitLsn(100) != other
    assert Position(100) != other


@pytest.mark.parametrize(("lsn", "is_covered"), [(99, True), (100, False), (101, False)])
def test_a_position_covers_what_commits_below_it(lsn: int, is_covered: bool) -> None:  # noqa: FBT001 - a table
    assert Position(100).covers(CommitLsn(lsn)) is is_covered


def test_a_position_of_a_later_epoch_covers_all_of_the_earlier() -> None:
    assert Position.of(1, 0).covers(CommitLsn.of(0, HIGHEST_LOG))


@pytest.mark.parametrize("lsn", [CommitLsn.of(3, 100), Position.of(3, 100)])
def test_an_lsn_survives_pickling(lsn: CommitLsn | Position) -> None:
    assert pickle.loads(pickle.dumps(lsn)) == lsn
