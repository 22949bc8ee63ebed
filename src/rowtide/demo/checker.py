"""The demo's interface to the second process."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rowtide.demo.errors import ProcessSilent
from rowtide.demo.figures import Figures, Span
from rowtide.demo.processes import Child, Directory
from rowtide.demo.proof import Read, TableProof, TargetVersion

_TICK_S = 0.5
_CAPTURE_TIMEOUT_S = 300
_ANSWER_TIMEOUT_S = 120
_PROOF_TIMEOUT_S = 600


class Checker:
    """Sends requests to the second process, one at a time.

    `on_tick` is called twice a second meanwhile, and may raise.
    """

    def __init__(self, child: Child) -> None:
        self._child = child
        self.on_tick: Callable[[], None] = lambda: None

    @classmethod
    @contextmanager
    def start(cls, directory: Directory) -> Iterator[Checker]:
        """Start the process; it ends with the context."""
        command = [sys.executable, "-m", "rowtide.demo.checker_process", str(directory.lake)]
        with Child("checker", command, directory, answers=True) as child:
            yield cls(child)

    def await_capture(self) -> None:
        """Wait until capture has created all change tables."""
        deadline = time.monotonic() + _CAPTURE_TIMEOUT_S
        while not self._ask("is_possible"):
            if time.monotonic() > deadline:
                raise ProcessSilent("capture", _CAPTURE_TIMEOUT_S, "the change tables do not appear")
            self.on_tick()
            time.sleep(_TICK_S)

    def read(self, *, patience_s: float) -> Read | None:
        """Request the maximum LSN and a read up to it; see `ConsistentReader.read`."""
        found = self._ask("read", patience_s=patience_s)
        return Read(**found) if found is not None else None

    def compare(self, final: Path) -> list[TableProof]:
        """Request a comparison of all tables."""
        return [TableProof(**found) for found in self._ask("compare", _PROOF_TIMEOUT_S, final=str(final))]

    def compare_targets(
        self, final: Path, current: TargetVersion, history: TargetVersion, lsns: Sequence[int]
    ) -> list[TableProof]:
        """Request a comparison of the targets' tables, see `proof.compare_targets`."""
        versions = {"current": asdict(current), "history": asdict(history)}
        found = self._ask("compare_targets", _PROOF_TIMEOUT_S, final=str(final), lsns=list(lsns), **versions)
        return [TableProof(**comparison) for comparison in found]

    def figures(self, span: Span) -> Figures:
        """Request the figures."""
        return Figures(**self._ask("figures", after=span.after, last=span.last))

    def _ask(self, request: str, timeout_s: int = _ANSWER_TIMEOUT_S, **arguments: object) -> Any:
        self._child.send(json.dumps({"ask": request, **arguments}).encode())
        return self._answer(f"it does not answer to {request}", timeout_s)

    def _answer(self, awaited: str, timeout_s: int) -> Any:
        deadline = time.monotonic() + timeout_s
        while (line := self._child.receive(_TICK_S)) is None:
            if time.monotonic() > deadline:
                raise ProcessSilent(self._child.name, timeout_s, awaited)
            self.on_tick()
        return json.loads(line)
