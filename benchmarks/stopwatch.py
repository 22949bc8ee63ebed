"""Where time goes: named functions, timed while they are called."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class Stopwatch:
    """Adds up the wall time of wrapped functions, over all threads."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._begin = time.perf_counter()

    def now(self) -> float:
        """Return the seconds since the stopwatch was made."""
        return time.perf_counter() - self._begin

    @contextmanager
    def around(self, *targets: tuple[object, str, str]) -> Iterator[None]:
        """Time attributes (owner, attribute, label) until the context ends."""
        originals = [(owner, attribute, getattr(owner, attribute)) for owner, attribute, _ in targets]
        for (owner, attribute, label), (_, _, original) in zip(targets, originals, strict=True):
            setattr(owner, attribute, self._timed(original, label))
        try:
            yield
        finally:
            for owner, attribute, original in originals:
                setattr(owner, attribute, original)

    def _timed(self, original: Callable[..., Any], label: str) -> Callable[..., Any]:
        def timed(*arguments: Any, **named: Any) -> Any:
            begin = self.now()
            try:
                return original(*arguments, **named)
            finally:
                self.seconds[label] += self.now() - begin

        return timed
