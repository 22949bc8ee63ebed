"""Logs in files that others rotate, and on standard error, whatever happens to either."""

from __future__ import annotations

import errno
import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rowtide.cli.output.watching import stopping
from rowtide.events import Level, LogFormat, LogOptions, configure_logging
from rowtide.events.catalogue import JobFailed, JobStarted, StoreSlow, TableJoined
from rowtide.events.configuration import LOOK_S, LogFile, LogNotWritable, reopen_log
from rowtide.events.event import emit, use_log

WRITER = """
import sys
from rowtide.events import LogFormat, LogOptions, configure_logging
from rowtide.events.catalogue import TableJoined
from rowtide.events.event import emit
configure_logging(LogOptions(LogFormat.JSON, destination=sys.argv[1]))
sys.stdin.readline()
for number in range(300):
    emit(TableJoined(sys.argv[2] * 5000, str(number)))
"""


@pytest.fixture(autouse=True)
def _own_log() -> Iterator[None]:
    before = use_log(None)
    yield
    use_log(before)


class Clock:
    """A clock that is set."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def open_file(path: Path, clock: Callable[[], float] = time.monotonic, told: list[str] | None = None) -> LogFile:
    report = (told if told is not None else []).append
    return LogFile(str(path), report=report, say_missing=lambda lines: f"missing {lines}", clock=clock)


def read(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def test_a_file_is_the_callers_alone_and_kept(tmp_path: Path) -> None:
    path, before = tmp_path / "rowtide.log", os.umask(0)
    try:
        for _ in range(2):
            configure_logging(LogOptions(destination=str(path)))
            emit(JobStarted())
    finally:
        os.umask(before)

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [line.split()[1:] for line in read(path)] == [["info", "job_started"]] * 2


def test_a_file_that_was_renamed_is_opened_again(tmp_path: Path, clock: Clock) -> None:
    path, rotated = tmp_path / "rowtide.log", tmp_path / "rowtide.log.1"
    log = open_file(path, clock)
    log.write("one", Level.INFO)
    path.rename(rotated)
    clock.now = LOOK_S / 2
    log.write("two", Level.INFO)
    clock.now = LOOK_S
    log.write("three", Level.INFO)

    assert (read(rotated), read(path)) == (["one", "two"], ["three"])


def test_a_removed_file_is_made_again(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "rowtide.log"
    log = open_file(path, clock)
    path.unlink()
    clock.now = LOOK_S
    log.write("one", Level.INFO)

    assert read(path) == ["one"]


def test_a_log_is_opened_again_when_asked(tmp_path: Path) -> None:
    path, rotated = tmp_path / "rowtide.log", tmp_path / "rowtide.log.1"
    configure_logging(LogOptions(destination=str(path)))
    path.rename(rotated)
    reopen_log()
    emit(JobStarted())

    assert (len(read(rotated)), len(read(path))) == (0, 1)


def test_sighup_opens_a_log_again_where_there_is_no_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, signals_kept: None
) -> None:
    path = tmp_path / "rowtide.log"
    configure_logging(LogOptions(destination=str(path)))
    monkeypatch.setattr("rowtide.cli.output.watching.has_terminal", lambda: False)
    with stopping(reopens_log=True) as stop:
        path.rename(tmp_path / "rowtide.log.1")
        signal.raise_signal(signal.SIGHUP)
        emit(JobStarted())

        assert (path.exists(), stop.is_set()) == (True, False)

    monkeypatch.setattr("rowtide.cli.output.watching.has_terminal", lambda: True)
    with stopping(reopens_log=True) as stop:
        signal.raise_signal(signal.SIGHUP)

        assert stop.is_set()


def test_a_file_that_cannot_be_opened_again_is_written_on(tmp_path: Path, clock: Clock) -> None:
    path, rotated, told = tmp_path / "logs" / "rowtide.log", tmp_path / "rotated", list[str]()
    path.parent.mkdir()
    log = open_file(path, clock, told)
    path.parent.rename(rotated)
    log.reopen()
    log.write("one", Level.INFO)
    log.write("two", Level.INFO)

    assert read(rotated / "rowtide.log") == ["one", "two"]
    assert len(told) == 1


@pytest.mark.parametrize("name", ["", "missing/rowtide.log"], ids=["folder", "missing"])
def test_a_file_that_cannot_be_written_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(LogNotWritable, match="RT-1180"):
        configure_logging(LogOptions(destination=str(tmp_path / name)))


def test_a_full_disk_ends_nothing_and_is_reported_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`/dev/full` refuses each line; a disk that fills up takes part of one."""
    told: list[str] = []
    full = open_file(Path("/dev/full"), told=told)
    full.write("one", Level.INFO)
    full.write("two", Level.INFO)

    assert told == ["The log file /dev/full cannot be written: No space left on device. Lines are missing there."]

    path = tmp_path / "rowtide.log"
    log, room, write = open_file(path, told=told), [7], os.write

    def write_with_room(descriptor: int, content: bytes) -> int:
        if not room[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = write(descriptor, content[: room[0]])
        room[0] -= written
        return written

    monkeypatch.setattr(os, "write", write_with_room)
    for line in ("whole", "torn", "lost"):
        log.write(line, Level.INFO)
    room[0] = 1000
    log.write("again", Level.INFO)

    assert read(path) == ["whole", "t", "missing 2", "again"]
    assert len(told) == 2


def test_two_processes_write_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "rowtide.log"
    command = [sys.executable, "-c", WRITER, str(path)]
    writers = [subprocess.Popen([*command, name], stdin=subprocess.PIPE, text=True) for name in ("a", "b")]
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.close()
    assert [writer.wait(120) for writer in writers] == [0, 0]

    found = [json.loads(line) for line in read(path)]
    assert sorted({one["table"][0] for one in found}) == ["a", "b"]
    for name in ("a", "b"):
        assert [int(one["rule"]) for one in found if one["table"] == name * 5000] == list(range(300))


@pytest.mark.parametrize(
    ("level", "names"),
    [
        (None, ["table_joined", "job_started"]),
        (Level.DEBUG, ["table_joined", "store_slow", "job_started"]),
        (Level.WARNING, []),
    ],
)
def test_a_level_leaves_lesser_events_out(tmp_path: Path, level: Level | None, names: list[str]) -> None:
    path = tmp_path / "rowtide.log"
    configure_logging(LogOptions(LogFormat.JSON, level, str(path)))
    for event in (TableJoined("a", "b"), StoreSlow("s3://bucket"), JobStarted()):
        emit(event)

    assert [json.loads(line)["event"] for line in read(path)] == names


def test_options_are_given_as_words(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(LogOptions("json", "warning"))  # type: ignore[arg-type]
    emit(JobStarted())
    emit(JobFailed(0, ValueError("x")))

    assert json.loads(capsys.readouterr().err)["error"] == "ValueError"


def test_the_journal_gets_priorities(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(LogOptions(level=Level.DEBUG, destination="journal"))
    emit(JobStarted())
    emit(StoreSlow("s3://bucket"))

    assert [line[:3] for line in capsys.readouterr().err.splitlines()] == ["<6>", "<7>"]


EMITS = """
import sys
from rowtide.cli.main import main
from rowtide.cli import commands as tree
from rowtide.cli.output.watching import watching
from rowtide.events import LogFormat, LogOptions
from rowtide.events.catalogue import TableJoined
from rowtide.events.event import emit
def run(arguments):
    with watching("Beginning ...", LogOptions(LogFormat(arguments[0])), "postgresql://host/shop", "capture"):
        for number in range(int(arguments[1])):
            emit(TableJoined("東\\n\\x1b[2J", str(number)))
    print("done")
tree.app = run
main()
"""


def run_emitting(form: str, count: int, shell: str, **environment: str) -> subprocess.CompletedProcess[str]:
    script = shell.replace("{}", 'exec "$@"')
    command = ["sh", "-c", script, "sh", sys.executable, "-c", EMITS, form, str(count)]
    given = {**os.environ, **environment}
    return subprocess.run(command, env=given, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.parametrize("form", ["text", "json"])
def test_lines_are_the_same_in_any_locale_and_zone(form: str) -> None:
    there = {"PYTHONIOENCODING": "ascii", "LC_ALL": "C", "TZ": "Pacific/Apia", "COLUMNS": "80"}
    ended = run_emitting(form, 1, "{}", **there)

    assert (ended.returncode, ended.stdout) == (0, "done\n")
    started, joined, stopped = ended.stderr.splitlines()
    assert "東\\n\\u001b[2J" in joined
    if form == "json":
        assert [json.loads(line)["event"] for line in (started, stopped)] == ["agent_started", "agent_stopped"]
        assert json.loads(joined)["time"].endswith("Z")
    else:
        assert "Z info table_joined database=shop job=capture table=" in joined


def test_a_closed_pipe_ends_the_command_silently() -> None:
    ended = run_emitting("json", 3_000, "exec 3>&1; ({ ({}) 3>&- 2>&1 >/dev/null; echo $? >&3; } | head -n 1) 3>&3")

    assert ended.stdout.splitlines()[-1] == "141"
    assert ended.stderr == ""


def test_without_standard_error_the_command_goes_on() -> None:
    ended = run_emitting("text", 10, "{} 2>&-")

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "done\n", "")
