"""A supervisor keeps its children running, each apart from the others."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from builders.commands.running_agents import is_running
from rowtide.agents.loop import ignore
from rowtide.agents.supervisor import AllNeedPerson, Supervisor, Task, Tasks
from rowtide.core.errors import FileNotReadable
from rowtide.events.catalogue import ConfigurationNotReadAgain
from rowtide.events.event import Emitted, listening

CHILD = "builders.faults.supervised_child"
NEEDS_PERSON = 78
PATIENCE_S = 60.0
KILLED = """
import sys
from pathlib import Path
from rowtide.agents.supervisor import Supervisor, Task
folder = sys.argv[1]
tasks = {name: Task((folder, "wait"), {}) for name in ("a", "b")}
Supervisor("builders.faults.supervised_child", (78,), print, print).run(tasks, None)
"""


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def task(folder: Path, what: object, environment: Mapping[str, str] | None = None) -> Task:
    return Task((str(folder), what), {**(environment or {})})


def starts(folder: Path, name: str) -> list[list[str]]:
    """Return the starts of a child: its process, its secrets, its arguments."""
    path = folder / name
    return [line.split(" ") for line in path.read_text().splitlines()] if path.exists() else []


def supervise(
    tasks: Tasks,
    then: Callable[[], None],
    reload: Callable[[], Tasks] | None = None,
    on_report: Callable[[str, object], None] = ignore,
) -> list[str]:
    """Run a supervisor until another thread has done `then` and sent SIGTERM; return its events, failures marked."""
    events: list[str] = []

    def fail(failure: str) -> None:
        events.append(f"failed: {failure}")

    def act() -> None:
        try:
            then()
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    acting = threading.Thread(target=act)
    acting.start()
    Supervisor(CHILD, (NEEDS_PERSON,), events.append, fail, on_report=on_report).run(tasks, reload)
    acting.join()
    return events


def test_a_killed_child_is_started_again_and_others_run_on(tmp_path: Path) -> None:
    def kill() -> None:
        wait_for(lambda: (tmp_path / "a.ready").exists() and (tmp_path / "b.ready").exists())
        os.kill(int(starts(tmp_path, "a")[0][0]), signal.SIGKILL)
        wait_for(lambda: len(starts(tmp_path, "a")) == 2)

    events = supervise({"a": task(tmp_path, "wait"), "b": task(tmp_path, "wait")}, kill)

    assert "failed: a: ended by SIGKILL; starts again in 1 s" in events
    assert len(starts(tmp_path, "b")) == 1
    assert not any(is_running(pid) for name in "ab" for pid, *_ in starts(tmp_path, name))


def test_what_children_report_is_taken_until_they_end(tmp_path: Path) -> None:
    """Reports larger than what a pair of sockets holds, too; and of a child that is killed while it reports."""
    reports: list[tuple[str, object]] = []

    def kill() -> None:
        wait_for(lambda: len([one for name, one in reports if name == "a"]) > 20)
        os.kill(int(starts(tmp_path, "a")[0][0]), signal.SIGKILL)
        wait_for(lambda: len(starts(tmp_path, "a")) == 2 and (tmp_path / "b.ready").exists())

    def take(name: str, report: object) -> None:
        reports.append((name, report))

    supervise({"a": task(tmp_path, "report"), "b": task(tmp_path, "wait")}, kill, on_report=take)

    assert {name for name, _ in reports} == {"a"}
    assert {len(str(report)) for _, report in reports} == {1_000_000}


def test_a_child_that_needs_a_person_stops_no_other(tmp_path: Path) -> None:
    def wait() -> None:
        wait_for(lambda: bool(starts(tmp_path, "a")) and len(starts(tmp_path, "b")) == 2)

    events = supervise({"a": task(tmp_path, NEEDS_PERSON), "b": task(tmp_path, 69), "c": task(tmp_path, "wait")}, wait)

    assert "failed: a: needs a person, and is not started again until SIGHUP" in events
    assert "failed: b: ended with exit code 69; starts again in 1 s" in events
    assert (len(starts(tmp_path, "a")), len(starts(tmp_path, "c"))) == (1, 1)


def test_a_supervisor_ends_once_every_child_needs_a_person(tmp_path: Path) -> None:
    with pytest.raises(AllNeedPerson, match="each of these needs a person: a, b"):
        Supervisor(CHILD, (NEEDS_PERSON,), ignore, ignore).run(
            {"a": task(tmp_path, NEEDS_PERSON), "b": task(tmp_path, NEEDS_PERSON)}, None
        )


def test_a_second_signal_ends_children_that_do_not_listen(tmp_path: Path) -> None:
    def signal_twice() -> None:
        wait_for((tmp_path / "a.ready").exists)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.2)

    before = time.monotonic()
    supervise({"a": task(tmp_path, "deaf")}, signal_twice)

    assert time.monotonic() - before < 20
    assert not is_running(starts(tmp_path, "a")[0][0])


def test_a_reload_starts_stops_and_changes_children(tmp_path: Path) -> None:
    first = {"same": task(tmp_path, "wait"), "gone": task(tmp_path, "wait"), "changed": task(tmp_path, "wait")}
    second = {
        "same": task(tmp_path, "wait"),
        "new": task(tmp_path, "wait"),
        "changed": task(tmp_path, "wait", {"A": "1"}),
    }

    def reload() -> None:
        wait_for(lambda: all((tmp_path / f"{name}.ready").exists() for name in first))
        os.kill(os.getpid(), signal.SIGHUP)
        wait_for(lambda: len(starts(tmp_path, "changed")) == 2 and bool(starts(tmp_path, "new")))
        wait_for(lambda: not is_running(starts(tmp_path, "gone")[0][0]))

    events = supervise(first, reload, lambda: second)

    assert len(starts(tmp_path, "same")) == 1
    assert "gone: stopped" in events


def test_a_broken_file_changes_nothing_and_is_reported(tmp_path: Path) -> None:
    asked = threading.Event()

    def fail() -> Tasks:
        asked.set()
        raise FileNotReadable("/etc/rowtide/rowtide.toml", "it is broken")

    def hang_up() -> None:
        wait_for((tmp_path / "a.ready").exists)
        os.kill(os.getpid(), signal.SIGHUP)
        assert asked.wait(PATIENCE_S)

    emitted: list[Emitted] = []
    with listening(emitted.append):
        supervise({"a": task(tmp_path, "wait")}, hang_up, fail)

    assert len(starts(tmp_path, "a")) == 1
    (event,) = (one.event for one in emitted)
    assert isinstance(event, ConfigurationNotReadAgain)
    assert "it is broken" in str(event.error)


def test_a_reload_starts_what_needed_a_person(tmp_path: Path) -> None:
    tasks = {"a": task(tmp_path, NEEDS_PERSON), "b": task(tmp_path, "wait")}

    def hang_up() -> None:
        wait_for(lambda: bool(starts(tmp_path, "a")) and (tmp_path / "b.ready").exists())
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGHUP)
        wait_for(lambda: len(starts(tmp_path, "a")) == 2)

    supervise(tasks, hang_up, lambda: tasks)

    assert len(starts(tmp_path, "b")) == 1


def test_children_end_with_a_supervisor_that_is_killed(tmp_path: Path) -> None:
    program = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path)], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    )
    wait_for(lambda: (tmp_path / "a.ready").exists() and (tmp_path / "b.ready").exists())

    program.kill()
    program.wait()

    wait_for(lambda: not any(is_running(starts(tmp_path, name)[0][0]) for name in "ab"))
