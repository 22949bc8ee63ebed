"""What a command's `--out` may name."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rowtide.cli.output.rows import whole_file
from rowtide.core.errors import FileNotWritable

WRITE = """
from pathlib import Path
from rowtide.cli.output.rows import whole_file
with whole_file(Path("/dev/stdout")) as file:
    file.write_text("new")
"""


def test_a_pipe_is_written_and_stays(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE, text=True) as reader:
        with whole_file(pipe) as file, file.open("w") as writer:
            writer.write("new")
        assert reader.communicate()[0] == "new"
    assert pipe.is_fifo()


def test_standard_output_can_be_named() -> None:
    command = [sys.executable, "-c", WRITE]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "new"


def test_a_link_stays_and_its_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("target")
    for text in ("first", "second"):
        with whole_file(tmp_path / "link") as file:
            file.write_text(text)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "second"


def test_a_file_that_is_replaced_stays_as_private(tmp_path: Path) -> None:
    (tmp_path / "private").touch(0o600)
    with whole_file(tmp_path / "private") as file:
        file.write_text("new")
        assert file.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "private").stat().st_mode & 0o777 == 0o600


def test_two_that_write_one_file_do_not_mix(tmp_path: Path) -> None:
    with whole_file(tmp_path / "out") as first, first.open("w") as slow:
        with whole_file(tmp_path / "out") as second:
            second.write_text("second")
        slow.write("first")
    assert [(found.name, found.read_text()) for found in tmp_path.iterdir()] == [("out", "first")]


def test_a_full_device_is_named_and_a_folder_refused(tmp_path: Path) -> None:
    with (
        pytest.raises(FileNotWritable, match="/dev/full cannot be written: No space left"),
        whole_file(Path("/dev/full")) as file,
    ):
        file.write_text("new")
    assert Path("/dev/full").is_char_device()
    with pytest.raises(FileNotWritable, match="Is a directory"), whole_file(tmp_path) as file:
        file.write_text("new")
