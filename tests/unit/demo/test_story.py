"""What the demo prints while pgbench runs."""

from __future__ import annotations

import io

from rich.console import Console

from rowtide.demo.proof import Read
from rowtide.demo.story import DemoProgress, Lag, describe_run

READ = Read(lsn=0x1A2B, accounts=5, tellers=5, branches=5, history=5, transactions=1200, delay_s=0.1, read_s=0.9)


def sampled(*transactions: int) -> Lag:
    """A source with these numbers of transactions at 0 s, 1 s, 2 s, …"""
    lag = Lag()
    for second, number in enumerate(transactions):
        lag.sample(second, number)
    return lag


def test_lag_is_the_age_of_the_oldest_transaction_not_seen() -> None:
    assert sampled(0, 100, 200, 300).seconds(3.0, seen=100) == 1.0


def test_lag_is_nothing_when_all_is_seen() -> None:
    assert sampled(0, 100, 200).seconds(2.0, seen=200) == 0.0


def test_lag_is_the_whole_time_when_nothing_is_seen() -> None:
    assert sampled(10, 100, 200).seconds(2.0, seen=0) == 2.0


def test_nothing_published_is_said() -> None:
    assert describe_run(1500, None, 0.0, 0) == "1,500 transactions, nothing published yet"


def test_run_is_described_by_transactions_lsn_lag_and_reads() -> None:
    assert describe_run(1500, READ, 2.04, 7) == (
        "1,500 transactions, 1,200 read up to LSN 0/1A2B, 2.0 s behind; 7 consistent reads"
    )


def test_each_step_is_a_plain_line_where_there_is_no_terminal() -> None:
    output = io.StringIO()
    progress = DemoProgress(Console(file=output, width=40))
    with progress.step("Starting, with a text that is longer than the console is wide") as show:
        show("1 of 2")
        show("2 of 2, too soon after the first to be another line")
    lines = output.getvalue().splitlines()
    assert [line.partition(" s  ")[2] for line in lines] == [
        "Starting, with a text that is longer than the console is wide",
        "  1 of 2",
    ]
