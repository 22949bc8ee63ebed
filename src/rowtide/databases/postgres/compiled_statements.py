"""Statements that SQLAlchemy has compiled, kept for all engines: to compile one takes longer than to send it."""

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
