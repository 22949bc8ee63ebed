"""Tables for people: columns while they fit, else blocks; numbers, times and sizes as one reads them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from io import StringIO

import pytest

from rowtide.cli.output.rows import OutputFormat, as_json, print_listed
from rowtide.cli.output.tables import show_as_is, show_fact, write_block, write_table
from rowtide.core.lsn import CommitLsn, Position


def table(columns: list[str], rows: list[tuple[object, ...]], width: int | None = 80) -> list[str]:
    out = StringIO()
    write_table(columns, rows, out, width=width, show=show_fact)
    return out.getvalue().splitlines()


def test_columns_fit_their_values_and_numbers_align_right() -> None:
    assert table(["name", "rows"], [("a", 5), ("数据", 12), ("é", None)]) == [
        "name | rows",
        "-----+-----",
        "a    |    5",
        "数据 |   12",
        "é    |",
    ]


def test_rows_that_do_not_fit_are_blocks_of_wrapped_values() -> None:
    lines = table(["name", "fact"], [("a", "word " * 20), ("b", "x" * 90)], width=40)

    assert lines[:2] == ["-[ 1 ]----------------------------------", "name | a"]
    assert lines[2] == "fact | word word word word word word"
    assert lines[3] == "     | word word word word word word"
    assert lines[-1] == f"fact | {'x' * 90}"
    assert all(len(line) <= 40 for line in lines[:-1])


def test_a_pipe_has_every_row_on_a_line() -> None:
    assert len(table(["fact"], [("x" * 500,)], width=None)) == 3


def test_no_rows_are_said() -> None:
    assert table(["a", "b"], []) == ["a | b", "(0 rows)"]


def test_more_rows_than_set_the_widths_are_written() -> None:
    assert len(table(["n"], [(number,) for number in range(2500)])) == 2502


def test_one_row_is_a_line_for_each_fact() -> None:
    out = StringIO()
    write_block(["a", "longer"], ["x", "word " * 10], out, width=30, show=show_fact)

    assert out.getvalue().splitlines() == [
        "a      | x",
        "longer | word word word word",
        "       | word word word word",
        "       | word word",
    ]


@pytest.mark.parametrize(
    ("column", "value", "shown"),
    [
        ("rows", None, ""),
        ("rows", 1234567, "1234567"),
        ("lag_bytes", 0, "0 bytes"),
        ("lag_bytes", 1_234_567, "1.23 MB"),
        ("latency_s", 0.123456, "0.123"),
        ("latency_s", 12345.678, "12,346"),
        ("is_open", True, "yes"),
        ("names", ("a", "b"), "a, b"),
        ("at", datetime(2026, 5, 4, 3, 2, 1, 999, tzinfo=UTC), "2026-05-04 03:02:01Z"),
        ("lsn", CommitLsn.of(0, 0x1_0000_00FF), "1/FF"),
        ("lsn", Position.of(2, 255), "2:0/FF"),
        ("text", "a\nb\x1b[2J", r"a\nb\x1b[2J"),
        ("text", "naïve\u00a0é", "naïve\u00a0é"),
    ],
)
def test_facts_are_as_people_read_them(column: str, value: object, shown: str) -> None:
    assert show_fact(column, value) == shown


def test_values_of_a_users_tables_stay_as_they_are() -> None:
    assert [show_as_is("a_bytes", value) for value in (None, "", 0.1234567, 12345.678, True)] == [
        "NULL",
        "",
        "0.1234567",
        "12345.678",
        "True",
    ]


@dataclass(frozen=True)
class Inner:
    lsn: CommitLsn
    names: tuple[str, ...]


@dataclass(frozen=True)
class Listed:
    name: str
    inner: tuple[Inner, ...]
    row: str
    size_bytes: int


LISTED = Listed("a", (Inner(CommitLsn.of(0, 255), ("x",)),), '{"id": "1"}', 2_000_000)


def test_json_lines_nest_objects_and_have_every_field(capsys: pytest.CaptureFixture[str]) -> None:
    print_listed(Listed, [LISTED], OutputFormat.JSONL, {"name": "name"}, json_texts=("row",))

    assert json.loads(capsys.readouterr().out) == {
        "name": "a",
        "inner": [{"lsn": "0/FF", "names": ["x"]}],
        "row": {"id": "1"},
        "size_bytes": 2_000_000,
    }


def test_a_table_has_the_columns_of_its_headings_or_all(capsys: pytest.CaptureFixture[str]) -> None:
    brief = {"name": "name", "size": "size_bytes"}
    print_listed(Listed, [LISTED], OutputFormat.TABLE, brief)
    assert capsys.readouterr().out.splitlines()[0::2] == ["name | size", "a    | 2 MB"]

    print_listed(Listed, [LISTED], OutputFormat.TABLE, brief, wide=True)
    assert capsys.readouterr().out.splitlines()[0].split() == ["name", "|", "inner", "|", "row", "|", "size_bytes"]


def test_csv_has_lists_and_objects_as_text() -> None:
    assert as_json((CommitLsn.of(0, 255), "x"), OutputFormat.CSV) == "0/FF; x"
    assert as_json({"a": 1}, OutputFormat.CSV) == '{"a": 1}'
