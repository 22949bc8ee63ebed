"""The changes of one table version as Arrow columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rowtide.core.tables import ImageKind
from rowtide.log.postgres.pgoutput.frames import Frames, Ints
from rowtide.log.postgres.pgoutput.images import absent_bitmaps, row_images
from rowtide.log.postgres.pgoutput.relations import Layout
from rowtide.log.postgres.pgoutput.tuples import CARRIED, CARRIED_OR_UNCHANGED, walk

_INSERT, _UPDATE, _DELETE, _TRUNCATE = b"IUDT"
_TAG_OFFSET = 5  # kind byte and oid
_NEW = ord("N")
_TAG_IMAGES = {"N": ImageKind.NONE, "K": ImageKind.KEY, "O": ImageKind.FULL}
_IMAGES = np.zeros(256, np.int8)
for _tag, _image in _TAG_IMAGES.items():
    _IMAGES[ord(_tag)] = _image
_TAGS = {_INSERT: b"N", _UPDATE: b"NKO", _DELETE: b"KO"}
_IS_TAG_OF = np.zeros((256, 256), np.bool_)
for _kind, _tags in _TAGS.items():
    _IS_TAG_OF[_kind, list(_tags)] = True


@dataclass(frozen=True, slots=True)
class TableImages:
    """One entry per change: the kind of `before`, both row images, and the values that `after` lacks."""

    image: npt.NDArray[np.int8]
    before: pa.Array[Any]
    after: pa.Array[Any]
    absent: pa.Array[Any]


def read_images(frames: Frames, messages: Ints, layout: Layout) -> TableImages:
    """Decode the rows of these messages, all of one layout; truncations have no images. Raises `DecodeError`."""
    starts = frames.starts[messages]
    kinds = frames.kinds[messages]
    tags = frames.octets[starts + _TAG_OFFSET]
    is_row = kinds != _TRUNCATE
    frames.require(_IS_TAG_OF[kinds, tags] | ~is_row, messages, "unknown kind of tuple")
    image = np.where(is_row, _IMAGES[tags], np.int8(ImageKind.NONE)).astype(np.int8)
    has_before = image != ImageKind.NONE
    has_after = is_row & (kinds != _DELETE)
    cursors = starts + _TAG_OFFSET + 1
    before = walk(frames, messages[has_before], cursors[has_before], layout, CARRIED)
    cursors[has_before] = before.ends
    _enter_new_tuples(frames, messages, cursors, np.flatnonzero(has_before & has_after))
    after_messages = messages[has_after]
    after = walk(frames, after_messages, cursors[has_after], layout, CARRIED_OR_UNCHANGED)
    cursors[has_after] = after.ends
    is_at_end = cursors == frames.ends[messages]
    frames.require(is_at_end | ~is_row, messages, "the row is shorter than its message")
    return TableImages(
        image,
        row_images(frames, messages, has_before, before),
        row_images(frames, messages, has_after, after),
        absent_bitmaps(has_after, after.kinds),
    )


def _enter_new_tuples(frames: Frames, messages: Ints, cursors: Ints, updates: Ints) -> None:
    """Move the cursors of updates that have an old tuple past the mark of the new one."""
    ends, changed = cursors[updates], messages[updates]
    is_new = (ends < frames.ends[changed]) & (frames.octets[ends] == _NEW)
    frames.require(is_new, changed, "no new tuple follows the old one")
    cursors[updates] = ends + 1
