"""The metadata of a node's own changes, made of what triggers wrote: they write when, not what. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from rowtide.merge.lineage import Change, Lineage, decode_columns, encode_columns


@lru_cache(maxsize=4096)
def compose(own: int, generation: int, base: bytes) -> tuple[bytes, bytes]:
    """Return lineage and last change, encoded, of a row that node `own` changed on top of the lineage `base`."""
    last = Change(own, generation)
    return Lineage.decode(base).with_change(last).encode(), last.encode()


def compose_columns(own: int, received: bytes | None, own_generations: Mapping[int, int]) -> bytes:
    """Return the last changes of columns, encoded: those received, and the own ones by place, with generations."""
    changes = decode_columns(received or b"")
    changes.update({place: Change(own, generation) for place, generation in own_generations.items()})
    return encode_columns(changes)
