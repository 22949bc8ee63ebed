"""Frames are found as one by one, whatever they hold and wherever what has arrived ends."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from rowtide.core.errors import DecodeError
from rowtide.log.postgres.stream.local_copy import FRAME_HEAD, find_frames

LOOKALIKES = st.sampled_from([b"", b"w", b"k", b"d\0\0\0\6w", b"d\0\0\0\7w", b"wd\0\0\1\0w", b"d\0\0\0w\0w"])
"""Beginnings of contents that look like a frame, or continue one."""
CONTENTS = st.builds(lambda head, rest: head + rest, LOOKALIKES, st.binary(max_size=12))
FRAMES = st.lists(st.tuples(st.sampled_from([b"d", b"d", b"d", b"N", b"S"]), CONTENTS), max_size=30)


def written(frames: list[tuple[bytes, bytes]]) -> bytes:
    return b"".join(FRAME_HEAD.pack(kind, FRAME_HEAD.size - 1 + len(content)) + content for kind, content in frames)


def walked(data: bytes) -> list[int]:
    places = [0]
    while places[-1] + FRAME_HEAD.size <= len(data):
        end = places[-1] + 1 + FRAME_HEAD.unpack_from(data, places[-1])[1]
        if end > len(data):
            break
        places.append(end)
    return places


@given(FRAMES, st.data())
def test_frames_are_found_as_one_by_one(frames: list[tuple[bytes, bytes]], data: st.DataObject) -> None:
    log = written(frames)
    arrived = log[: data.draw(st.integers(0, len(log)))]

    assert find_frames(np.frombuffer(arrived, np.uint8)).tolist() == walked(arrived)


@pytest.mark.parametrize("length", [0, 3, 1 << 31])
def test_a_length_that_no_frame_has_is_refused(length: int) -> None:
    log = written([(b"d", b"w123")]) + FRAME_HEAD.pack(b"d", length) + b"w"

    with pytest.raises(DecodeError, match="no frame of the protocol"):
        find_frames(np.frombuffer(log, np.uint8))
