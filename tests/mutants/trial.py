"""Tries mutants in a run of pytest that has collected its tests: each in a fork, whose functions have the fault.

The run first takes every test once and notes which functions it enters. A mutant is then tried by the tests that
enter its function: those first that caught another of the function, or whose text has words of the fault, then those
that caught another of the module, then the quickest. A fork replaces the code of one function, so neither imports nor
collection are repeated; a program that a test starts anew does not have the fault.
"""

from __future__ import annotations

import ast
import builtins
import gc
import inspect
import json
import os
import re
import select
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from types import CodeType, FunctionType

import pytest
from _pytest.runner import runtestprotocol

from mutants.changes import Mutant, outermost_functions

DOES_NOT_END = "caught: does not end within the limit"
"""A machine that has much else to do says this of sound tests, too: repeat with a higher `--limit-s`."""
Function = tuple[str, str]
"""A module's path, and the qualified name of an outermost function."""
CAUGHT_BY = "caught by "
WORD = re.compile(r"[A-Za-z]\w{4,}")
RARE = 0.05
"""In how large a share of the tests a rare word is."""
NOTE = "_note_entered_function"
"""The name, among Python's built-in functions, by which a watched function says that it was entered."""


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
    entered: dict[str, Entered] = field(default_factory=dict)
    """By the tests' names."""

    sound: set[str] = field(default_factory=set)
    """Tests that caught a fault, and pass without it."""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep the cases that `make test` runs, and one case of each test that it leaves to `make test-all`."""
        quick = [item for item in items if not item.get_closest_marker("exhaustive")]
        known = {_test_of(item) for item in quick}
        left = {_test_of(item): item for item in reversed(items) if _test_of(item) not in known}
        kept = {*quick, *left.values()}
        items[:] = [item for item in items if item in kept]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run every test once, then every mutant's."""
        gc.unfreeze()
        functions = _find_functions(
            self.sources, {(one.path, one.function, one.function_line) for one in self.possible}
        )
        items = session.items
        self.entered = self._try_sound_code(session, functions)
        for mutant in self.mutants:
            function = functions.get((mutant.path, mutant.function))
            chosen = list(_within(self.limit_s / 3, self._order(items, mutant), self.entered))
            if function is None or not chosen:
                self._report(mutant, "unwatched")
                continue
            self._report(mutant, self._judge(mutant, function, chosen, items[0]))
        return True

    def list_modules(self, mutant: Mutant) -> list[str]:
        """Return the modules of the tests that enter a mutant's function, those first that do so oftenest."""
        modules = Counter(
            test.partition("::")[0]
            for test, one in self.entered.items()
            if (mutant.path, mutant.function) in one.functions
        )
        return [module for module, _ in modules.most_common()]

    def _order(self, items: Sequence[pytest.Item], mutant: Mutant) -> list[pytest.Item]:
        """Return the tests that enter a mutant's function, the likeliest to notice it first."""
        caught = {one: verdict.removeprefix(CAUGHT_BY) for one, verdict in self.verdicts.items()}
        of_module = {test for one, test in caught.items() if one.path == mutant.path}
        of_function = {
            test for one, test in caught.items() if (one.path, one.function) == (mutant.path, mutant.function)
        }
        words = self._rare_words(items, mutant)
        return sorted(
            (item for item in items if (mutant.path, mutant.function) in self.entered[item.nodeid].functions),
            key=lambda item: (
                item.nodeid not in of_function and not words & _words_of(item),
                item.nodeid not in of_module,
                self.entered[item.nodeid].seconds,
            ),
        )

    def _rare_words(self, items: Sequence[pytest.Item], mutant: Mutant) -> set[str]:
        """Return the words of a fault that few tests have: an error's name, a column, an option."""
        words = {*WORD.findall(mutant.was)}
        return {word for word in words if sum(word in _words_of(item) for item in items) <= len(items) * RARE}

    def _try_sound_code(self, session: pytest.Session, functions: dict[Function, FunctionType]) -> dict[str, Entered]:
        entered = self._read_known()
        seen: set[Function] = set()
        _watch_calls(self.sources, functions, seen)
        left = [item for item in session.items if item.nodeid not in entered]
        for position, item in enumerate(left):
            # After the last one, too, the session goes on, with what lives as long; but no module or folder does.
            following = left[position + 1] if position + 1 < len(left) else session
            began = time.monotonic()
            seen.clear()
            reports = _run(item, following)
            if all(report.passed or report.skipped for report in reports):
                entered[item.nodeid] = Entered(time.monotonic() - began, {*seen})
            else:
                print(f"fails without any fault, is left out: {item.nodeid}", flush=True)
                entered[item.nodeid] = Entered(0.0, set())
            self._keep_known(item.nodeid, entered[item.nodeid])
        return entered

    def _keep_known(self, test: str, found: Entered) -> None:
        """Append a line: a run that is stopped has what it noted so far."""
        with self.known.open("a") as file:
            file.write(f"{json.dumps([test, found.seconds, sorted(found.functions)])}\n")

    def _read_known(self) -> dict[str, Entered]:
        if not self.known.exists():
            return {}
        rows = map(json.loads, self.known.read_text().splitlines())
        return {
            test: Entered(seconds, {(path, function) for path, function in functions})
            for test, seconds, functions in rows
        }

    def _judge(self, mutant: Mutant, function: FunctionType, chosen: Sequence[pytest.Item], other: pytest.Item) -> str:
        """Return who noticed the mutant; a test that fails without it, too, since it was noted, is not believed."""
        path = self.sources / mutant.path
        code = _find_code(compile(mutant.apply_to(path.read_text()), str(path), "exec"), mutant.function)
        if code.co_freevars != function.__code__.co_freevars:
            return "survives: no function that runs takes this code"
        left = list(chosen)
        while left:
            verdict = self._try(partial(_replace_code, function, code), left, other)
            catcher = next((item for item in left if verdict == f"{CAUGHT_BY}{item.nodeid}"), None)
            if catcher is None or self._is_sound(catcher, other):
                return verdict
            left.remove(catcher)
        return "survives"

    def _is_sound(self, test: pytest.Item, other: pytest.Item) -> bool:
        """Return whether a test passes without any fault."""
        if test.nodeid not in self.sound:
            if self._try(lambda: None, [test], other) != "survives":
                print(f"fails without any fault, is not believed: {test.nodeid}", flush=True)
                return False
            self.sound.add(test.nodeid)
        return True

    def _try(self, set_fault: Callable[[], None], chosen: Sequence[pytest.Item], other: pytest.Item) -> str:
        """Return who noticed a fault."""
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.setpgid(0, 0)
            os.close(reading)
            _run_fault(set_fault, chosen, other, writing)
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


def _test_of(item: pytest.Item) -> str:
    """Return the name of the test that a case is of."""
    return item.nodeid.partition("[")[0]


@cache
def _words_of(item: pytest.Item) -> frozenset[str]:
    """Return the words of a test's text."""
    assert isinstance(item, pytest.Function)
    return frozenset(WORD.findall(inspect.getsource(item.function)))


def _within(limit_s: float, items: Sequence[pytest.Item], entered: dict[str, Entered]) -> Iterator[pytest.Item]:
    """Yield items until they take too long together, at least one."""
    spent_s = 0.0
    for number, item in enumerate(items):
        spent_s += entered[item.nodeid].seconds
        if number and spent_s > limit_s:
            return
        yield item


def _replace_code(function: FunctionType, code: CodeType) -> None:
    function.__code__ = code


def _run_fault(set_fault: Callable[[], None], chosen: Sequence[pytest.Item], other: pytest.Item, writing: int) -> None:
    """Run tests with the fault in this process, say who noticed it, and end."""
    silence = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(silence, stream)
    verdict = "survives"
    try:
        set_fault()
        for position, item in enumerate(chosen):
            following = chosen[position + 1] if position + 1 < len(chosen) else other
            if not all(report.passed or report.skipped for report in _run(item, following)):
                verdict = f"{CAUGHT_BY}{item.nodeid}"
                break
        os.write(writing, verdict.encode())
    finally:
        # Neither the sessions' fixtures, which are the parent's, nor what it registered for its end.
        os._exit(0)


def _run(item: pytest.Item, following: pytest.Item | pytest.Session) -> list[pytest.TestReport]:
    # Of what follows, pytest only takes the nodes above it: what it needs of them stays set up.
    return runtestprotocol(item, log=False, nextitem=following)  # type: ignore[arg-type]


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


def _watch_calls(sources: Path, functions: dict[Function, FunctionType], seen: set[Function]) -> None:
    """Have each function note that it was entered; unlike a tracer this costs no other function anything."""
    setattr(builtins, NOTE, seen.add)
    for path in {path for path, _ in functions}:
        module = ast.parse((sources / path).read_text(encoding="utf-8"))
        of_module = {name for of, name in functions if of == path}
        for name, node in outermost_functions(module.body):
            if name in of_module:
                node.body[:0] = ast.parse(f"{NOTE}({(path, name)!r})").body
        code = compile(ast.fix_missing_locations(module), str(sources / path), "exec")
        for name in of_module:
            functions[path, name].__code__ = _find_code(code, name)
