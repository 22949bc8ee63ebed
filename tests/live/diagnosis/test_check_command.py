"""`rowtide check` as a shell sees it."""

from __future__ import annotations

import csv
import json
from io import StringIO

from builders.capture.captured_databases import LoggedDatabase
from builders.commands.command_lines import rowtide


def test_findings_are_listed_and_nothing_that_stops_is_a_success(logged: LoggedDatabase) -> None:
    logged.execute("create table item (id int)")
    ended = rowtide("check", "--db", logged.url)
    assert (ended.code, ended.errors) == (0, "")
    assert "it has no primary key" in ended.output
    rows = list(csv.DictReader(StringIO(rowtide("check", "--db", logged.url, "--format", "csv").output)))
    assert list(rows[0]) == ["state", "code", "area", "subject", "message", "measures", "remediation"]


def test_what_stops_is_listed_first_and_is_an_error(logged: LoggedDatabase) -> None:
    logged.execute("create unlogged table item (id int)", "create table other (id int primary key)")
    ended = rowtide("check", "item", "other", "--db", logged.url, "--format", "jsonl")
    rows = [json.loads(line) for line in ended.output.splitlines()]
    assert (rows[0]["state"], rows[0]["code"], rows[0]["subject"]) == ("failing", "table_refused", "table public.item")
    assert {row["state"] for row in rows[1:]} == {"healthy"}
    assert ended.code == 1
    assert ended.errors == (
        "RT-5101: work is stopped by table public.item. "
        "Each is listed with its remediation; then run `rowtide check` again.\n"
    )


def test_missing_table_and_unreachable_server_are_errors(logged: LoggedDatabase) -> None:
    rowtide("check", "nowhere", "--db", logged.url).require_error(22931)
    rowtide("check", "--db", "postgresql://localhost:1/nowhere").require_error(1101)
