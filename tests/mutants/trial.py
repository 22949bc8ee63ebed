"""Tries mutants in a run of pytest that has collected its tests: each in a fork, whose functions have the fault.

The run first takes every test once and notes which functions it enters. A mutant is then tried by the tests that
enter its function, the quickest first. A fork replaces the code of one function, so neither imports nor collection
are repeated; a program that a test starts anew does not have the fault.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType, FunctionType

import pytest
from _pytest.runner import runtestprotocol

from mutants.changes import Mutant

DOES_NOT_END = "caught: does not end within the limit"
"""A machine that has much else to do says this of sound tests, too: repeat with a higher `--limit-s`."""
Function = tuple[str, str]
"""A module's path, and the qualified name of an outermost function."""


@dataclass(slots=True)
class Entered:
    """What a test took: its seconds, and the functions of the package that it entered."""

    seconds: float
    functions: set[Function]


@dataclass(slots=True)
class Trial:
    """A plugin of pytest that runs its tests once for each mutant instead of once."""

    sources: Path
    possible: Sequence[Mutant]
    """Every mutant of the package: which tests enter its functions is noted for all of them."""
    mutants: Sequence[Mutant]
    limit_s: float
    known: Path
    verdicts: dict[Mutant, str] = field(default_factory=dict)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run every test once, then every mutant's."""
        gc.unfreeze()
        functions = _find_functions(
            self.sources, {(one.path, one.function, one.function_line) for one in self.possible}
        )
        items = session.items
        entered = self._try_sound_code(items, functions)
        for mutant in self.mutants:
            function = functions.get((mutant.path, mutant.function))
            by_time = sorted(
                (item for item in items if (mutant.path, mutant.function) in entered[item.nodeid].functions),
                key=lambda item: entered[item.nodeid].seconds,
            )
            chosen = list(_within(self.limit_s / 3, by_time, entered))
            if function is None or not chosen:
                self._report(mutant, "unwatched")
                continue
            self._report(mutant, self._try(mutant, function, chosen, items[0]))
        return True

    def _try_sound_code(
        self, items: Sequence[pytest.Item], functions: dict[Function, FunctionType]
    ) -> dict[str, Entered]:
        entered = self._read_known()
        names = {function.__code__: name for name, function in functions.items()}
        for position, item in enumerate(items):
            if item.nodeid in entered:
                continue
            # Another test follows the last one, too: what lives as long as the session goes on.
            following = items[position + 1] if position + 1 < len(items) else items[0]
            began = time.monotonic()
            seen: set[Function] = set()
            with _watch_calls(names, seen):
                reports = _run(item, following)
            if all(report.passed or report.skipped for report in reports):
                entered[item.nodeid] = Entered(time.monotonic() - began, seen)
            else:
                print(f"fails without any fault, is left out: {item.nodeid}", flush=True)
                entered[item.nodeid] = Entered(0.0, set())
        self.known.write_text(
            json.dumps({name: [one.seconds, sorted(one.functions)] for name, one in entered.items()}, indent=1)
        )
        return entered

    def _read_known(self) -> dict[str, Entered]:
        if not self.known.exists():
            return {}
        rows = json.loads(self.known.read_text())
        return {
            name: Entered(seconds, {(path, function) for path, function in functions})
            for name, (seconds, functions) in rows.items()
        }

    def _try(self, mutant: Mutant, function: FunctionType, chosen: Sequence[pytest.Item], other: pytest.Item) -> str:
        """Return who noticed the mutant."""
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.setpgid(0, 0)
            os.close(reading)
            _run_fault(self.sources, mutant, function, chosen, other, writing)
        os.close(writing)
        text = _read_until(reading, time.monotonic() + self.limit_s)
        with suppress(ProcessLookupError):  # It may have ended by itself.
            os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        if text is None:
            return DOES_NOT_END
        return text or "caught: ends the process"

    def _report(self, mutant: Mutant, verdict: str) -> None:
        self.verdicts[mutant] = verdict
        print(f"{len(self.verdicts)}/{len(self.mutants)} {verdict}: {mutant}", flush=True)


def _within(limit_s: float, items: Sequence[pytest.Item], entered: dict[str, Entered]) -> Iterator[pytest.Item]:
    """Yield items until they take too long together, at least one."""
    spent_s = 0.0
    for number, item in enumerate(items):
        spent_s += entered[item.nodeid].seconds
        if number and spent_s > limit_s:
            return
        yield item


def _run_fault(
    sources: Path,
    mutant: Mutant,
    function: FunctionType,
    chosen: Sequence[pytest.Item],
    other: pytest.Item,
    writing: int,
) -> None:
    """Run tests with the fault in this process, say who noticed it, and end."""
    silence = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(silence, stream)
    verdict = "survives"
    try:
        path = sources / mutant.path
        function.__code__ = _find_code(compile(mutant.apply_to(path.read_text()), str(path), "exec"), mutant.function)
        for position, item in enumerate(chosen):
            following = chosen[position + 1] if position + 1 < len(chosen) else other
            if not all(report.passed or report.skipped for report in _run(item, following)):
                verdict = f"caught by {item.nodeid}"
                break
        os.write(writing, verdict.encode())
    finally:
        # Neither the sessions' fixtures, which are the parent's, nor what it registered for its end.
        os._exit(0)


def _run(item: pytest.Item, following: pytest.Item) -> list[pytest.TestReport]:
    return runtestprotocol(item, log=False, nextitem=following)


def _read_until(reading: int, end: float) -> str | None:
    """Return what a process writes before it closes; None if it does not by then."""
    parts: list[bytes] = []
    with os.fdopen(reading, "rb", buffering=0) as stream:
        while select.select([stream], [], [], max(end - time.monotonic(), 0))[0]:
            part = stream.read(65536)
            if not part:
                return b"".join(parts).decode()
            parts.append(part)
            if b"".join(parts):
                return b"".join(parts).decode()
    return None


def _find_functions(sources: Path, wanted: set[tuple[str, str, int]]) -> dict[Function, FunctionType]:
    """Return the live functions by path and qualified name, whatever decorators have made of them."""
    names = {(str(sources / path), name, line): (path, name) for path, name, line in wanted}
    found: dict[Function, FunctionType] = {}
    for one in gc.get_objects():
        if isinstance(one, FunctionType):
            code = one.__code__
            known = names.get((code.co_filename, code.co_qualname, code.co_firstlineno))
            if known is not None:
                found[known] = one
    return found


def _find_code(module: CodeType, name: str) -> CodeType:
    code = module
    for part in name.split("."):
        code = next(one for one in code.co_consts if isinstance(one, CodeType) and one.co_name == part)
    return code


@contextmanager
def _watch_calls(names: dict[CodeType, Function], seen: set[Function]) -> Iterator[None]:
    """Note which functions are called, by any thread of this process."""

    def note(frame: FrameType, _event: str, _argument: object) -> None:
        name = names.get(frame.f_code)
        if name is not None:
            seen.add(name)

    threading.settrace(note)
    sys.settrace(note)
    try:
        yield
    finally:
        sys.settrace(None)
        threading.settrace(None)
