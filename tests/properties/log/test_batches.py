"""However a log arrives, its cuts are the log, and each is what its kind says."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given, strategies as st

from builders.log.log_messages import PlainCommits, messages
from rowtide.log.batches import Cut, LastPart, Messages, TransactionPart, Whole, cut_batch

COMMITS = PlainCommits()
ARRIVALS = st.lists(st.tuples(st.integers(0, 12), st.booleans()), max_size=12)
"""How many messages come before each cutting, and whether the buffer counts as full then."""


@st.composite
def logs(draw: st.DrawFn) -> list[bytes]:
    """Whole transactions of any length, and perhaps the beginning of one."""
    lengths = draw(st.lists(st.integers(0, 10), max_size=8))
    text = [f"B{number} {'r ' * length} C{number}" for number, length in enumerate(lengths, 1)]
    beginning = draw(st.integers(0, 6))
    return list(messages(" ".join(text + ["r"] * beginning)))


def cut(log: Sequence[bytes], arrivals: Sequence[tuple[int, bool]]) -> tuple[list[Cut], list[bytes]]:
    """Cut as the log reader does; return all cuts, and what of the log is left over."""
    cuts: list[Cut] = []
    kept: Sequence[bytes] = ()
    arrived, in_parts = 0, False
    for count, is_full in arrivals:
        buffered = Messages.of([*kept, *log[arrived : arrived + count]])
        arrived += count
        new, taken = cut_batch(buffered, COMMITS, in_parts=in_parts, is_full=is_full)
        kept = buffered[taken:]
        cuts += new
        in_parts = isinstance(cuts[-1], TransactionPart) if cuts else False
    return cuts, [*kept, *log[arrived:]]


@given(logs(), ARRIVALS)
def test_the_cuts_and_what_is_kept_are_the_log_in_its_order(log: list[bytes], arrivals: list[tuple[int, bool]]) -> None:
    cuts, kept = cut(log, arrivals)

    assert [message for each in cuts for message in each.messages] + kept == log


@given(logs(), ARRIVALS)
def test_no_cut_is_empty(log: list[bytes], arrivals: list[tuple[int, bool]]) -> None:
    assert all(each.messages for each in cut(log, arrivals)[0])


@given(logs(), ARRIVALS)
def test_parts_are_followed_by_parts_until_a_last_part(log: list[bytes], arrivals: list[tuple[int, bool]]) -> None:
    cuts, _ = cut(log, arrivals)

    for before, after in pairwise([None, *cuts]):
        assert isinstance(
            after, TransactionPart | LastPart if isinstance(before, TransactionPart) else TransactionPart | Whole
        )


@given(logs(), ARRIVALS)
def test_a_cut_ends_with_a_commit_unless_it_is_a_part(log: list[bytes], arrivals: list[tuple[int, bool]]) -> None:
    for each in cut(log, arrivals)[0]:
        commits = [index for index, message in enumerate(each.messages) if COMMITS.is_commit(message)]
        last = len(each.messages) - 1
        match each:
            case TransactionPart():
                assert commits == []
            case LastPart():
                assert commits == [last]
                assert each.end == COMMITS.commit_end(each.messages[last])
            case Whole():
                assert commits[-1] == last
                assert each.end == COMMITS.commit_end(each.messages[last])


@given(logs(), ARRIVALS)
def test_a_whole_and_a_first_part_begin_where_a_transaction_does(
    log: list[bytes], arrivals: list[tuple[int, bool]]
) -> None:
    cuts, _ = cut(log, arrivals)
    place = 0
    for before, each in pairwise([None, *cuts]):
        if each is not None and not isinstance(before, TransactionPart):
            assert place == 0 or COMMITS.is_commit(log[place - 1])
        place += len(each.messages) if each is not None else 0
