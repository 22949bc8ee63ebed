"""Printing changes: more of them than memory is to hold, and to a reader that goes."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from builders.capture.captured_databases import CapturedDatabase
from rowtide.cli.process import CLOSED_PIPE

BIG = "create table big (id int primary key, content text)"
FILL = """
insert into big
select id, (select string_agg(md5(id::text || part), '') from generate_series(1, 190) part)
from generate_series(1, {rows}) id
"""
CONTENT = re.compile(rf"[0-9a-f]{{32}}(?=[0-9a-f]{{{189 * 32}}})")
"""The first digits of the content of a row, which tell its id."""


@contextmanager
def printing(captured: CapturedDatabase, folder: Path, form: str) -> Iterator[subprocess.Popen[str]]:
    """Run `cdc changes` with its temporary files in a folder of its own."""
    command = [sys.executable, "-m", "rowtide", "cdc", "changes", "public_big", "--format", form, "--db", captured.url]
    environment = {**os.environ, "TMPDIR": str(folder)}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture
def filled(captured: CapturedDatabase) -> CapturedDatabase:
    captured.execute(BIG)
    captured.enable("big")
    captured.execute(FILL.format(rows=2_000))
    captured.capture()
    return captured


@pytest.mark.exhaustive
def test_a_reader_that_goes_ends_the_command_and_leaves_nothing(filled: CapturedDatabase, tmp_path: Path) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    with printing(filled, folder, "jsonl") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert json.loads(process.stdout.readline())["id"] == 1
        process.stdout.close()
        assert (process.wait(120), process.stderr.read()) == (CLOSED_PIPE, "")
    assert [left for left in folder.iterdir() if left.name.startswith("rowtide-")] == []


@pytest.mark.soak
@pytest.mark.parametrize("form", ["jsonl", "csv", "table"])
def test_half_a_gigabyte_is_printed_in_order(captured: CapturedDatabase, tmp_path: Path, form: str) -> None:
    captured.execute(BIG)
    captured.enable("big")
    captured.execute(FILL.format(rows=95_000))
    captured.capture()
    with printing(captured, tmp_path, form) as process:
        assert process.stdout is not None
        contents = [found[0] for line in process.stdout if (found := CONTENT.search(line))]
        assert process.wait(60) == 0

    assert contents == [hashlib.md5(f"{number}1".encode()).hexdigest() for number in range(1, 95_001)]
