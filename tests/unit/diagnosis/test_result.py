from __future__ import annotations

import shlex

import pytest

from rowtide.databases.postgres.errors import RightMissing
from rowtide.diagnosis import CheckResult, Code, State, exit_code, worst
from rowtide.diagnosis.result import (
    Sql,
    by_state,
    format_bytes,
    format_duration,
    format_names,
    or_healthy,
    set_and_reload,
    shell,
    unread,
    without_notes,
)

KEPT = CheckResult(Code.SLOT_KEEPS_WAL, State.HEALTHY, "slot s", "the server keeps 2 GiB")
RESERVED = CheckResult(Code.SLOT_HEALTHY, State.HEALTHY, "slot s", "reserved")


def of(*states: State) -> list[CheckResult]:
    return [CheckResult(Code.SLOT_HEALTHY, state, "slot s", "so it is") for state in states]


@pytest.mark.parametrize(
    ("states", "code"),
    [
        ([State.HEALTHY], 0),
        ([State.HEALTHY, State.WARNING], 1),
        ([State.HEALTHY, State.UNKNOWN], 1),
        ([State.UNKNOWN, State.FAILING, State.WARNING], 2),
    ],
)
def test_the_worst_state_decides_the_exit_code(states: list[State], code: int) -> None:
    assert exit_code(of(*states)) == code


def test_without_results_nothing_is_known() -> None:
    assert worst(()) is State.UNKNOWN


def test_the_worst_comes_first_and_equals_stay_in_order() -> None:
    listed = by_state(of(State.HEALTHY, State.UNKNOWN, State.WARNING, State.FAILING))
    assert [result.state for result in listed] == list(State)


def test_notes_are_no_concern_of_health() -> None:
    assert KEPT.is_note
    assert not RESERVED.is_note
    assert list(without_notes([KEPT, RESERVED])) == [RESERVED]


def test_a_subject_of_which_nothing_is_wrong_is_healthy() -> None:
    assert list(or_healthy([KEPT], RESERVED)) == [RESERVED]
    lost = CheckResult(Code.SLOT_LOST, State.FAILING, "slot", "it is lost")
    assert list(or_healthy([KEPT, lost], RESERVED)) == [lost]


def test_an_error_of_reading_makes_a_subject_unknown() -> None:
    result = unread(Code.MERGE_UNKNOWN, "merge", RightMissing("permission denied"))
    assert (result.state, str(result.code), result.area) == (State.UNKNOWN, "merge_unknown", "merge")
    assert result.message == "the server refused: permission denied"


def test_statements_print_on_one_line_with_note_as_comment() -> None:
    assert str(set_and_reload("a", "0")) == "alter system set a = 0; select pg_reload_conf(); -- as a superuser"
    assert str(Sql(("select 1;",))) == "select 1;"


def test_a_command_is_read_by_the_shell_as_it_was_meant() -> None:
    words = ["rowtide", "cdc", "enable-table", '"it\'s"."a b"', "--columns", "$x,`y`"]
    assert shlex.split(str(shell(*words))) == words


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 bytes"),
        (1023, "1023 bytes"),
        (1024, "1 KiB"),
        (1536, "1.5 KiB"),
        (64 << 30, "64 GiB"),
        (1 << 61, "2048 PiB"),
    ],
)
def test_bytes_use_the_largest_unit_with_at_least_one(count: int, text: str) -> None:
    assert format_bytes(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.25, "0.2 s"),
        (119, "119 s"),
        (120, "2 minutes"),
        (7199, "120 minutes"),
        (9000, "2.5 hours"),
        (259200, "3 days"),
    ],
)
def test_durations_use_the_largest_unit_with_at_least_two(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


def test_long_name_lists_are_cut_with_the_remaining_count() -> None:
    assert format_names(("a", "b"), most=2) == "a, b"
    assert format_names(("a", "b", "c", "d"), most=2) == "a, b and 2 more"
