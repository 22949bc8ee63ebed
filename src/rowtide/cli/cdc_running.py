"""`rowtide cdc`: capture, and going on after a gap."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from rowtide.cli.options import Db
from rowtide.cli.output import notes
from rowtide.core.errors import RowtideError
from rowtide.core.lsn import CommitLsn
from rowtide.handle import connect

if TYPE_CHECKING:
    from rowtide.cdc.capture import CycleReport

app = typer.Typer()


@app.command(epilog="Example: rowtide cdc run --once --db postgresql://localhost/shop")
def run(
    db: Db,
    *,
    once: Annotated[bool, typer.Option("--once", help="Stop when everything committed before is published.")] = False,
) -> None:
    """Read the log and capture, until stopped with Ctrl-C (SQL Server: the capture job)."""
    from rowtide.cdc.run import Watchers

    stop = threading.Event()

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, on_signal)
    with notes.status("Starting Spark and the log reader ...") as status:
        shown = status if notes.is_terminal else None

        def on_cycle(report: CycleReport) -> None:
            subject = "heartbeat" if report.is_heartbeat else "instances"
            line = (
                f"cycle {report.cycle}: {', '.join(report.instances) or subject} "
                f"published up to LSN {report.to_position} in {report.seconds:.1f} s"
            )
            if shown is not None:
                shown.update(line)
            else:
                notes.print(line, soft_wrap=True)

        def on_retry(error: RowtideError, pause_s: float) -> None:
            notes.print(f"{error} Next try in {pause_s:g} s.", soft_wrap=True)

        connect(db).cdc.run(once=once, stop=stop, watchers=Watchers(on_cycle, on_retry))


@app.command(epilog="Example: rowtide cdc reinitialize --yes --db postgresql://localhost/shop")
def reinitialize(
    db: Db,
    reason: Annotated[str, typer.Option(help="Recorded with the gap.")] = "reinitialized by hand",
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Go on after a gap: slot and publication are made anew, and the gap is recorded. Says first what is lost."""
    cdc = connect(db).cdc
    notes.print(f"Lost: {cdc.find_loss()}.", soft_wrap=True)
    if not yes:
        typer.confirm("Go on?", abort=True, err=True)
    cdc.reinitialize(reason)
    notes.print("The next epoch is open; `rowtide cdc run` goes on.")


@app.command(epilog="Example: rowtide cdc skip-transaction 0/16B3748 --yes --db postgresql://localhost/shop")
def skip_transaction(
    db: Db,
    lsn: Annotated[str, typer.Argument(help="The LSN that RT-2121 names.")],
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Go on behind a transaction that cannot be read; the gap is recorded. Says first what is lost."""
    cdc, skipped = connect(db).cdc, CommitLsn.parse(lsn)
    unreadable = cdc.find_unreadable(skipped)
    notes.print(
        f"Lost: every change of the transaction that commits at LSN {skipped}; a change of {unreadable.table} in it "
        f"cannot be read: {unreadable.reason}. Ranges that contain {skipped} will be refused.",
        soft_wrap=True,
    )
    if not yes:
        typer.confirm("Go on?", abort=True, err=True)
    cdc.skip_transaction(skipped)
    notes.print("Skipped; `rowtide cdc run` goes on behind it.")
