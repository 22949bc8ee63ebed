"""A supervisor of processes, each of which does one task, and none of which can end another.

A child gets its task over a socket pair, since `ps` shows arguments, and reports over it. It ends when the pair is
closed: with the supervisor, however that ends. A child that ends is restarted after a pause, unless its exit code means
that a person has to act. The supervisor has one thread, and waits for signals: SIGCHLD is one of them.
"""

from __future__ import annotations

import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, Pipe
from types import FrameType

from rowtide.agents.log_reader_process import module_search_path
from rowtide.agents.loop import ignore
from rowtide.agents.signals import receiving_signals
from rowtide.core.errors import RowtideError
from rowtide.core.values import frozen
from rowtide.events.catalogue import ConfigurationNotReadAgain
from rowtide.events.event import emit

FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0
HEALTHY_S = 60.0
"""After a process has run for this long, the next restart has the first pause again."""


def next_pause_s(last_pause_s: float | None, ran_s: float) -> float:
    """Return the pause before the next start, doubled from one second to a minute.

    `last_pause_s` is the one before the last start, None if that was the first.
    """
    if last_pause_s is None or ran_s >= HEALTHY_S:
        return FIRST_PAUSE_S
    return min(last_pause_s * 2, LONGEST_PAUSE_S)


STOP_PATIENCE_S = 25.0
"""A child that has not ended by then after SIGTERM is killed."""
_STOPPING = frozenset({signal.SIGTERM, signal.SIGINT})


class AllNeedPerson(RowtideError, number=1167):
    """No task is left that the supervisor may restart."""

    fact = "each of these needs a person: {names}"
    hint = "See the errors above; resolve them and start the command again."
    names: str


@frozen
class Task:
    """What one child does: a value that pickles, and the environment in which it does it."""

    work: object
    environment: Mapping[str, str]


Tasks = Mapping[str, Task]
"""Tasks by the names under which they are reported."""


@dataclass(slots=True)
class _Child:
    """A running process."""

    task: Task
    process: subprocess.Popen[bytes]
    connection: Connection
    started_at: float
    killed_at: float | None = None
    """When it is killed; None while it is not asked to end."""
    may_report: bool = True
    """Whether its end of the connection is open."""


@dataclass(slots=True)
class _KeptTask:
    """A task as it is wanted now, and its child, which may still run the previous version of the task."""

    task: Task | None
    starts_at: float | None
    """None: it runs, or needs a person."""
    child: _Child | None = None
    last_pause_s: float | None = None


@dataclass(slots=True)
class Supervisor:
    """Keeps a child for each task, which runs the module `program`."""

    program: str
    needing_person: Collection[int]
    """Exit codes after which a child is not started again."""
    on_event: Callable[[str], None]
    """Called with what was done as it was asked for."""
    on_failure: Callable[[str], None]
    """Called with what a child did unasked, or did not do."""
    on_step: Callable[[], None] = ignore
    """Called at least every `longest_wait_s`: the supervisor's sign of life."""
    longest_wait_s: float = 10.0
    on_report: Callable[[str, object], None] = ignore
    """Called with a child's name and what it sent over its connection, a value that pickles."""
    _kept: dict[str, _KeptTask] = field(default_factory=dict)
    _is_stopping: bool = False

    def run(self, tasks: Tasks, reload: Callable[[], Tasks] | None) -> None:
        """Keep the tasks running until SIGTERM or SIGINT; a second one ends the children at once.

        With `reload`, SIGHUP asks for other tasks, and starts again what needed a person; without, it ends the run,
        as the others do. Raises `AllNeedPerson`.
        """
        with _signals() as receive:
            self._want(tasks)
            while True:
                timeout_s = self._tend(time.monotonic())
                if not any(kept.child is not None for kept in self._kept.values()):
                    if self._is_stopping:
                        return
                    if timeout_s is None:
                        raise AllNeedPerson(", ".join(self._kept))
                self.on_step()
                wait_s = self.longest_wait_s if timeout_s is None else min(timeout_s, self.longest_wait_s)
                for number in receive(wait_s, self._list_connections()):
                    if number == signal.SIGHUP and reload is not None:
                        self._reload(reload)
                    elif number in (*_STOPPING, signal.SIGHUP):
                        self._stop()
                self._take_reports()

    def _list_connections(self) -> Sequence[Connection]:
        children = (kept.child for kept in self._kept.values())
        return [child.connection for child in children if child is not None and child.may_report]

    def _take_reports(self) -> None:
        for name, kept in self._kept.items():
            child = kept.child
            while child is not None and child.may_report and child.connection.poll():
                try:
                    self.on_report(name, child.connection.recv())
                except (EOFError, OSError):
                    # It has ended, or is ending: SIGCHLD reports the end.
                    child.may_report = False

    def _want(self, tasks: Tasks) -> None:
        """Start tasks that are new, stop those that are gone, and do both with those that have changed."""
        now = time.monotonic()
        for name, kept in self._kept.items():
            kept.task = tasks.get(name)
            if kept.child is not None and kept.child.task != kept.task:
                # Its successor starts after its end, because two processes would compete for the leases of the same
                # jobs.
                self._end(kept.child, now)
            elif kept.child is None:
                kept.starts_at = now if kept.task is not None else None
        for name in [one for one in tasks if one not in self._kept]:
            self._kept[name] = _KeptTask(tasks[name], now)

    def _reload(self, reload: Callable[[], Tasks]) -> None:
        if self._is_stopping:
            return
        try:
            tasks = reload()
        except RowtideError as error:
            emit(ConfigurationNotReadAgain(error))
            return
        self.on_event("The configuration was read again.")
        self._want(tasks)

    def _stop(self) -> None:
        now = time.monotonic()
        for kept in self._kept.values():
            kept.task = kept.starts_at = None
            if kept.child is not None and self._is_stopping:
                kept.child.process.kill()
            elif kept.child is not None:
                self._end(kept.child, now)
        self._is_stopping = True

    def _end(self, child: _Child, now: float) -> None:
        if child.killed_at is None:
            child.killed_at = now + STOP_PATIENCE_S
            child.process.terminate()

    def _tend(self, now: float) -> float | None:
        """Do everything that is due; return the seconds until the next thing is due, None if nothing is."""
        for name, kept in [*self._kept.items()]:
            if kept.child is not None and kept.child.process.poll() is not None:
                self._note_end(name, kept, kept.child, now)
            if kept.child is not None and kept.child.killed_at is not None and now >= kept.child.killed_at:
                self.on_failure(f"{name}: has not ended {STOP_PATIENCE_S:g} s after SIGTERM, and is killed")
                kept.child.process.kill()
                kept.child.killed_at = None
            if kept.child is None and kept.task is None:
                del self._kept[name]
            elif kept.task is not None and kept.starts_at is not None and now >= kept.starts_at:
                self._start(name, kept, kept.task, now)
        due = [kept.child.killed_at if kept.child is not None else kept.starts_at for kept in self._kept.values()]
        return min((max(0.0, at - now) for at in due if at is not None), default=None)

    def _start(self, name: str, kept: _KeptTask, task: Task, now: float) -> None:
        kept.child, kept.starts_at = _start_child(self.program, name, task, now), None
        self.on_event(f"{name}: started, process {kept.child.process.pid}")

    def _note_end(self, name: str, kept: _KeptTask, child: _Child, now: float) -> None:
        code = child.process.returncode
        child.connection.close()
        kept.child = None
        if kept.task is None:
            self.on_event(f"{name}: stopped")
        # Ended by this supervisor, for other work: that is no failure, and needs no pause.
        elif kept.task != child.task:
            kept.starts_at, kept.last_pause_s = now, None
        elif code in self.needing_person:
            self.on_failure(f"{name}: needs a person, and is not started again until SIGHUP")
        else:
            kept.last_pause_s = pause_s = next_pause_s(kept.last_pause_s, now - child.started_at)
            kept.starts_at = now + pause_s
            self.on_failure(f"{name}: ended {_describe(code)}; starts again in {pause_s:g} s")


def receive_task() -> tuple[str, object, Connection]:
    """Return this child's name and work, and the connection that is closed when the supervisor ends."""
    connection = Connection(int(sys.argv[1]))
    return sys.argv[2], connection.recv(), connection


def _start_child(program: str, name: str, task: Task, now: float) -> _Child:
    ours, theirs = Pipe()
    # -P as in `log_reader_process`. A session of its own: signals of the terminal are for the supervisor.
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", program, str(theirs.fileno()), name],
            env={**task.environment, "PYTHONPATH": module_search_path()},
            stdin=subprocess.DEVNULL,
            pass_fds=(theirs.fileno(),),
            start_new_session=True,
        )
    # If it has ended already, its exit code is found.
    with suppress(ConnectionError):
        ours.send(task.work)
    return _Child(task, process, ours, now)


def _describe(code: int) -> str:
    return f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"


@contextmanager
def _signals() -> Iterator[Callable[[float, Sequence[Connection]], Sequence[int]]]:
    """Yield what waits for signals or reports, for some seconds at most, and returns the signals' numbers."""
    numbers = [*_STOPPING, signal.SIGCHLD]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    with receiving_signals() as received:

        def receive(timeout_s: float, connections: Sequence[Connection]) -> Sequence[int]:
            waited_for: list[socket.socket | Connection] = [received, *connections]
            readable = select.select(waited_for, [], [], timeout_s)[0]
            return received.recv(4096) if received in readable else b""

        handlers = {number: signal.signal(number, _note) for number in numbers}
        try:
            yield receive
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)


def _note(_number: int, _frame: FrameType | None) -> None:
    """Take a signal, whose number Python writes to the socket."""
