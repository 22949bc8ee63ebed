"""The demo's figures of a small lake, as its checker sends them: in JSON."""

from __future__ import annotations

import json
from dataclasses import asdict

from builders.capture.captured_databases import CapturedDatabase
from rowtide.demo.checker import Span, read_figures
from rowtide.demo.processes import ACCOUNT, KEYS


def test_figures_of_a_lake_can_be_sent(captured: CapturedDatabase) -> None:
    for table, key in KEYS.items():
        captured.execute(f"create table {table} ({key or 'hid'} int primary key, n int)")
    captured.enable(*KEYS)
    captured.execute(*(f"insert into {table} values ({ACCOUNT}, 0)" for table in KEYS))
    captured.execute(f"update pgbench_accounts set n = 1 where aid = {ACCOUNT}")
    captured.capture()
    figures = read_figures(str(captured.lake), Span(0, 1 << 62))

    sent = json.loads(json.dumps(asdict(figures)))
    assert sent["change_rows"] == {table: 3 if table == "pgbench_accounts" else 1 for table in KEYS}
    assert [row[-1] for row in sent["account_rows"]] == [0, 0, 1]
