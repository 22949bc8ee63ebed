"""Events that a long-running command shows and logs; and how it is stopped."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from types import FrameType

import click

from rowtide.agents.signals import calling_late, has_terminal, owns_process
from rowtide.cli.exit_codes import FAILED, ExitCode, code_when_running_on
from rowtide.cli.output.event_lines import PROGRESS, Progress, describe_one, describe_progress
from rowtide.cli.output.progress import progress
from rowtide.cli.output.rows import notes
from rowtide.core.errors import RowtideError
from rowtide.databases.urls import parse_url
from rowtide.events.catalogue import AgentFailed, AgentStarted, AgentStopped, SubscriptionStopped
from rowtide.events.configuration import LogOptions, configure_logging, reopen_log
from rowtide.events.event import (
    Emitted,
    Level,
    emit,
    listening,
    log_nothing,
    process_scope,
    record_of,
    use_log,
    write_text,
)
from rowtide.systemd import NO_MANAGER, ServiceManager

STOP_PATIENCE_S = 4.0
"""A process ends within five seconds after SIGTERM."""


class StopRequest(threading.Event):
    """An event that stops a run; `is_heeded` once the run has checked it: from then on it has work to complete."""

    is_heeded = False

    def is_set(self) -> bool:
        self.is_heeded = True
        return super().is_set()

    def wait(self, timeout: float | None = None) -> bool:
        self.is_heeded = True
        return super().wait(timeout)


@contextmanager
def stopping(
    *, reopens_log: bool = False, at_hangup: bool = True, manager: ServiceManager = NO_MANAGER
) -> Iterator[threading.Event]:
    """Yield the event that Ctrl-C, SIGTERM and a terminal that is closed set; not the latter under `nohup`.

    A step that has not ended `STOP_PATIENCE_S` later ends with the process, at a second signal at once: the next run
    repeats it, as after a crash. A run that has never checked the event ends at once. `manager` is notified. With
    `reopens_log`, SIGHUP opens the log's file again where there is no terminal that could be closed. Without
    `at_hangup`, it ends nothing: a service manager sends it to have files read again.
    """
    stop = StopRequest()

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    def on_hangup(_number: int, _frame: FrameType | None) -> None:
        reopen_log()

    def end() -> None:
        manager.report_stopping()
        os._exit(ExitCode.STOPPED)

    def patience_s() -> float:
        # Importing a run's modules may take longer than that on a busy machine, and nothing checks the event meanwhile.
        return STOP_PATIENCE_S if stop.is_heeded else 0.0

    numbers = {signal.SIGINT, signal.SIGTERM}
    ends_at_hangup = at_hangup and (not reopens_log or has_terminal())
    if ends_at_hangup and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.add(signal.SIGHUP)
    with calling_late(numbers, patience_s, end) if owns_process() else nullcontext():
        for number in numbers:
            signal.signal(number, on_signal)
        if not ends_at_hangup:
            signal.signal(signal.SIGHUP, on_hangup)
        yield stop


@contextmanager
def watching(
    beginning: str,
    log: LogOptions,
    db: str,
    job: str,
    *,
    once: bool = False,
    at_hangup: bool = True,
    manager: ServiceManager = NO_MANAGER,
) -> Iterator[threading.Event]:
    """Show or log the events of a command that runs on, as its options say; yield the event that `stopping` yields.

    `db` is empty for all databases. A terminal shows `beginning` until the first event. An error that was printed
    already, as a line or as an event, is not printed again. `manager` gets the lines that people see, and is notified
    when the command ends.
    """
    log = _leveled(log)
    logs_to_file = not log.is_for_people and not log.is_on_stderr
    failed: list[BaseException] = []

    def note_failure(emitted: Emitted) -> None:
        if isinstance(emitted.event, SubscriptionStopped):
            failed.append(emitted.event.error)

    with (
        process_scope(parse_url(db).name if db else "", job),
        logging_as(log),
        listening(note_failure),
        reporting_to(manager),
        showing(beginning, log.level or Level.INFO, is_shown=not log.is_on_stderr),
        stopping(reopens_log=logs_to_file, at_hangup=at_hangup, manager=manager) as stop,
    ):
        began = time.monotonic()
        _emit_start()
        try:
            yield stop
        except Exception as error:
            # The last event of the log says why the process ended, even after an internal error.
            emit(AgentFailed(error))
            is_told = log.is_on_stderr or any(error is one for one in failed)
            if not isinstance(error, RowtideError) or not is_told or notes.is_debugging:
                raise
            raise click.exceptions.Exit(FAILED if once else code_when_running_on(error)) from error
        emit(AgentStopped(round(time.monotonic() - began, 3)))


@contextmanager
def reporting_to(manager: ServiceManager) -> Iterator[None]:
    """Report to a service manager during the block what people are shown, and at its end that the service ends."""
    if not manager.is_there:
        yield
        return

    def report(emitted: Emitted) -> None:
        lines = describe_progress([emitted.event]) if isinstance(emitted.event, PROGRESS) else [describe_one(emitted)]
        for line in lines:
            if line is not None:
                manager.report_status(line)

    with listening(report):
        try:
            yield
        finally:
            manager.report_stopping()


def _emit_start() -> None:
    from importlib.metadata import version

    emit(AgentStarted(version("rowtide"), os.getpid()))


@contextmanager
def logging_as(log: LogOptions) -> Iterator[None]:
    """Log events as the options say during the block; without options, nothing is logged."""
    before = use_log(log_nothing) if log.is_for_people else configure_logging(log)
    try:
        yield
    finally:
        use_log(before)


@contextmanager
def logging_beside(log: LogOptions) -> Iterator[None]:
    """Log events as the options say during the block, if they say so, beside what the command prints anyway."""
    log = _leveled(log)
    if log.is_for_people:
        yield
        return
    with logging_as(log):
        yield


def _leveled(log: LogOptions) -> LogOptions:
    """Return options with a level: without one of their own, the command's."""
    return log if log.level is not None else replace(log, level=notes.level)


@contextmanager
def showing(beginning: str, level: Level, *, is_shown: bool) -> Iterator[None]:
    """Show events of a level and above on standard error during the block: a line that changes, or lines.

    Of debug events, and of others that have no line of their own, `level` debug shows what a log would have.
    """
    if not is_shown:
        yield
        return
    with progress(beginning, describe_progress) as on_progress:

        def show(emitted: Emitted) -> None:
            if emitted.event.level.severity >= level.severity:
                _show(emitted, level, on_progress)

        with listening(show):
            yield


def _show(emitted: Emitted, level: Level, on_progress: Callable[[Progress], None]) -> None:
    if isinstance(emitted.event, PROGRESS):
        on_progress(emitted.event)
    elif (line := describe_one(emitted)) is not None:
        notes.print(line, soft_wrap=True, is_error=emitted.event.level is Level.ERROR)
    elif level is Level.DEBUG:
        notes.print(write_text(record_of(emitted)), soft_wrap=True)
