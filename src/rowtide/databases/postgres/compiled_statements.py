"""Statements that SQLAlchemy has compiled, kept for all engines: compiling one takes longer than sending it.

SQLAlchemy's own cache has an engine's dialect in its keys; a process that meets many databases spent a fifth of its
processor time on compiling each query for each of them. The result depends on `schema_translate_map` with or without
`None`, which is the same for all users of a driver: merge, which maps `None`, has a driver of its own.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy.util import LRUCache

_MOST = 1000
_Key = tuple[Any, ...]


class _CompiledOnce(LRUCache[_Key, Any]):
    """A cache of compiled statements whose keys have the dialect's class in place of an engine's own dialect.

    A dialect learns its server's version; what is compiled here is the same for all that rowtide supports.
    """

    def get(self, key: _Key, default: Any = None) -> Any:
        return super().get(_for_all(key), default)

    def __setitem__(self, key: _Key, compiled: Any) -> None:
        super().__setitem__(_for_all(key), compiled)


def _for_all(key: _Key) -> _Key:
    dialect, *statement = key
    return (type(dialect), *statement)


COMPILED_ONCE = _CompiledOnce(_MOST)
COMPILED_WITH_NONE = _CompiledOnce(_MOST)
"""For connections of the same driver that map `None`."""
