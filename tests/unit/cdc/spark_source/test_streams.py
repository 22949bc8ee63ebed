"""Offsets in the checkpoints of streams: their JSON, and offsets of other formats."""

from __future__ import annotations

import re
from typing import Any

import pytest

from rowtide.cdc.errors.querying import StreamOffsetUnknown
from rowtide.cdc.spark_source.streams import StreamedInstance, StreamOffset, parse_offset
from rowtide.core.formats import FormatNewer, FormatUnnumbered
from rowtide.core.lsn import CommitLsn

OFFSET = StreamOffset(CommitLsn(7), {"orders": StreamedInstance("m1", CommitLsn(5))})
STORED = {"format": "1/1/1", "lsn": 7, "instances": {"orders": {"member": "m1", "begin": 5}}}


@pytest.mark.parametrize("offset", [OFFSET, StreamOffset(None, OFFSET.instances)])
def test_an_offset_survives_its_json(offset: StreamOffset) -> None:
    assert parse_offset(offset.as_json()) == offset


def test_an_offset_of_format_1_is_read_and_written() -> None:
    assert parse_offset(STORED) == OFFSET
    assert OFFSET.as_json() == STORED


@pytest.mark.parametrize("recorded", ["2/2/2", "2/1/2"])
def test_an_offset_that_may_not_be_written_is_refused(recorded: str) -> None:
    with pytest.raises(FormatNewer, match="RT-1134"):
        parse_offset({"format": recorded, "later": "all else"})


def test_an_offset_of_a_newer_format_may_have_more() -> None:
    assert parse_offset({**STORED, "format": "2/1/1", "later": 1}) == OFFSET


def test_an_offset_without_a_number_is_refused() -> None:
    with pytest.raises(FormatUnnumbered, match="RT-1136: the offset at"):
        parse_offset({"lsn": 7, "instances": STORED["instances"]})


@pytest.mark.parametrize(
    "change", [{"later": 1}, {"format": "one"}, {"format": 1}, {"lsn": "seven"}, {"instances": {}}]
)
def test_what_is_no_offset_is_refused(change: dict[str, Any]) -> None:
    changed = {**STORED, **change}
    with pytest.raises(StreamOffsetUnknown, match=re.escape(f"the checkpoint has the offset {changed}")):
        parse_offset(changed)
