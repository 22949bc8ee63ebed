"""A child's messages are kept, its end is noticed, and nothing of it stays."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from rowtide.demo.errors import DirectoryNotEmpty, ProcessEnded
from rowtide.demo.processes import Child, Directory, last_line, open_directory

WITH_GRANDCHILD = """
import subprocess, sys, time
grandchild = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
print(grandchild.pid, flush=True)
sys.stdin.read()
time.sleep(60)
"""

WITH_QUIET_GRANDCHILD = """
import subprocess, sys
ends_late = "import sys, time; sys.stdin.read(); time.sleep(1)"
elsewhere = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
grandchild = subprocess.Popen([sys.executable, "-c", ends_late], stdin=subprocess.PIPE, **elsewhere)
print(grandchild.pid, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Directory]:
    """A demo's folder."""
    with open_directory(tmp_path / "demo") as opened:
        yield opened


def python(script: str) -> list[str]:
    return [sys.executable, "-c", script]


def is_there(pid: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def test_stopped_child_leaves_no_process_behind(directory: Directory) -> None:
    with Child("parent", python(WITH_GRANDCHILD), directory, answers=True) as child:
        grandchild = int(child.receive(30) or b"0")
        assert is_there(grandchild)
    assert not is_there(child.pid)
    assert not is_there(grandchild)


def test_stopped_child_leaves_none_that_writes_elsewhere(directory: Directory) -> None:
    with Child("parent", python(WITH_QUIET_GRANDCHILD), directory, answers=True) as child:
        grandchild = int(child.receive(30) or b"0")
        assert is_there(grandchild)
    assert not is_there(grandchild)


def test_ended_child_is_an_error_with_its_own_last_words(directory: Directory) -> None:
    script = "import sys; print('RT-2105: the slot was lost. Do this.', file=sys.stderr); sys.exit(1)"
    with (
        Child("capture", python(script), directory) as child,
        pytest.raises(ProcessEnded, match="RT-4905: capture ended by itself .exit code 1.: RT-2105: the slot was lost"),
    ):
        child.wait(30)
    assert "RT-2105" in (directory.messages / "capture").read_text()


def test_ended_child_does_not_leave_its_reader_waiting(directory: Directory) -> None:
    with (
        Child("checker", python("raise SystemExit(3)"), directory, answers=True) as child,
        pytest.raises(ProcessEnded, match="checker ended by itself .exit code 3.: it said nothing"),
    ):
        child.receive(30)


def test_killed_child_is_an_error_that_names_the_signal(directory: Directory) -> None:
    with (
        Child("checker", python("import os; os.kill(os.getpid(), 9)"), directory, answers=True) as child,
        pytest.raises(ProcessEnded, match="checker ended by itself .signal SIGKILL.: it said nothing"),
    ):
        child.receive(30)


def test_silent_child_is_waited_for_only_so_long(directory: Directory) -> None:
    with Child("checker", python("import sys; sys.stdin.read()"), directory, answers=True) as child:
        assert child.receive(0.05) is None


def test_own_error_line_comes_before_what_was_said_later() -> None:
    assert last_line("starting\nRT-4107: nothing. Wait.\nbye\n") == "RT-4107: nothing. Wait"


def test_kept_folder_must_be_empty(tmp_path: Path) -> None:
    (tmp_path / "something").touch()
    with pytest.raises(DirectoryNotEmpty, match="RT-4907"), open_directory(tmp_path):
        pass


def test_temporary_folder_is_removed_a_kept_one_loses_scratch(tmp_path: Path) -> None:
    with open_directory(None) as temporary:
        assert temporary.scratch.exists()
    with open_directory(tmp_path / "kept") as kept:
        assert kept.scratch.exists()
    assert not temporary.root.exists()
    assert kept.messages.exists()
    assert not kept.scratch.exists()
