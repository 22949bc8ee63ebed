"""A lake and its log store are read by nobody else, unless by the group that was asked for."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from builders.capture.captured_databases import CapturedDatabase
from builders.file_modes import modes_in


@pytest.fixture(autouse=True)
def usual_mask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.mark.parametrize(("for_group", "folder", "file"), [(False, 0o700, 0o600), (True, 0o750, 0o640)])
def test_what_capture_writes_is_as_readable_as_was_asked(
    captured: CapturedDatabase, *, for_group: bool, folder: int, file: int
) -> None:
    captured.execute("create table item (id int primary key, name text)")
    captured.cdc.enable_db(str(captured.lake), for_group=for_group)
    captured.enable("item")
    captured.execute("insert into item select n, 'a' from generate_series(1, 100) n")
    captured.capture()
    captured.execute("update item set name = 'b'")
    captured.capture()

    assert modes_in(captured.lake) == {"folders": {folder}, "files": {file}}
