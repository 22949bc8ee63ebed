"""What hints of errors say, run as it is printed: the error is gone then, or what was asked for is known."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import pytest

from builders.commands.checks import answered, run_line, run_statements, run_until
from builders.commands.command_lines import Ended, rowtide
from builders.commands.command_tree import commands
from rowtide.core.errors import RowtideError
from rowtide.diagnosis.result import ShellCommand, Sql

_FIRST = "rowtide alter grant create select begin drop rollback reindex pragma pip apt-get pg_dump pg_basebackup"
RUNNABLE = re.compile(f"(?:{_FIRST.replace(' ', '|')}) ")
"""How a statement or a command begins."""
_GROUPS = {command.words[0] for command in commands()} - {"grant"}
"""The first words of commands; `grant` is SQL's in a step."""


class Place(Protocol):
    """Where the steps of a case run; `words` are put for words in capitals."""

    @property
    def url(self) -> str: ...
    @property
    def words(self) -> Mapping[str, str]: ...
    def execute(self, *statements: str) -> object: ...


Step = str | Callable[["Place"], object]
"""A command without its first word; a statement, after `NAME: ` one in that database; or a call."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A command that an error refuses, after some steps, and what its hint says is done.

    `runs` are the places of the commands and statements in the hint that are run, with what is `chosen` for words in
    capitals, after what it says in words, `first`. Then the command, or `after`, has that error no more; where the hint
    only lists what can be chosen, `tells` is in what it prints. `fact` begins the fact where errors share a number.
    """

    number: int
    command: str
    before: tuple[Step, ...] = ()
    chosen: Mapping[str, str] = field(default_factory=dict)
    runs: tuple[int, ...] = (0,)
    first: tuple[Step, ...] = ()
    then: tuple[Step, ...] = ()
    after: str | None = None
    tells: str | None = None
    fact: str = ""
    by_role: bool = False
    is_endless: bool = False

    def __str__(self) -> str:
        return f"RT-{self.number}"

    @property
    def beginning(self) -> str:
        """How the error's line begins."""
        return f"RT-{self.number}: {self.fact}"


def find_runnable(hint: str) -> list[str]:
    """Return the statements and commands in a hint, as they are printed."""
    return [found for found in re.findall(r"`([^`]+)`", hint) if RUNNABLE.match(found)]


def require_help(refused: Refused, place: Place, asking: str) -> None:
    """Run a case: the URL `asking` has the error, the role of `place` does what the hint says."""
    for step in refused.before:
        take_step(step, place, asking)
    printed = run(refused.command, place, asking).errors
    assert refused.beginning in printed, printed
    (line,) = {line for line in printed.splitlines() if refused.beginning in line}
    found = find_runnable(line)
    for step in refused.first:
        take_step(step, place)
    told = "".join(do_hint(found[at], refused, place) for at in refused.runs)
    for step in refused.then:
        take_step(step, place)
    if refused.tells is not None:
        assert put_words(refused.tells, place) in told, told
        return
    if refused.is_endless:
        return
    ended = run(refused.after or refused.command, place, asking)
    assert refused.beginning not in ended.errors, ended
    assert refused.after is None or ended.code == 0, ended


def run_printed(error: RowtideError, url: str, at: int = 0, **chosen: str) -> None:
    """Run a command or statement of an error's hint as it is printed, on the database of a URL."""
    printed = find_runnable(str(error))[at]
    if printed.startswith("rowtide "):
        words = [chosen.get(word, word) for word in shlex.split(printed)]
        assert set(chosen.values()) <= set(words), printed
        run_line(ShellCommand(shlex.join(words)), url)
    else:
        for word, value in chosen.items():
            assert word in printed, printed
            printed = printed.replace(word, value)
        run_statements(Sql((f"{printed};",)), url)


def do_hint(printed: str, refused: Refused, place: Place) -> str:
    """Run one command or statement of a hint as it is printed; return its output."""
    if not printed.startswith("rowtide "):
        for word, value in refused.chosen.items():
            printed = printed.replace(word, value)
        run_statements(Sql(tuple(f"{one.strip()};" for one in put_words(printed, place).split(";"))), place.url)
        return ""
    words = [refused.chosen.get(word, word) for word in shlex.split(printed)]
    line = " ".join(shlex.quote(put_words(word, place)) for word in words)
    if refused.is_endless:
        gone: list[bool] = []

        def is_gone() -> bool:
            ended = run(refused.command, place, place.url)
            # What an agent runs, it does not run any more once it is gone.
            gone.extend([True] * (ended.code == 0 or bool(refused.fact and refused.beginning not in ended.errors)))
            return bool(gone)

        run_until(ShellCommand(line), place.url, is_gone, what=line)
        return ""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ROWTIDE_DB", place.url)
        ended = rowtide(*answered(shlex.split(line))[1:])
    # A listing of differences ends with 1.
    assert ended.code == 0 or (refused.tells and ended.output), (printed, ended)
    return ended.output


def take_step(step: Step, place: Place, asking: str = "") -> None:
    """Take one step of a case, which succeeds, but after `try`; after `by role` on the URL `asking`."""
    if not isinstance(step, str):
        step(place)
        return
    may_fail = step.startswith("try ")
    line = step.removeprefix("try ").removeprefix("by role ")
    if line.split()[0] in _GROUPS:
        ended = run(line, place, asking if step.startswith("by role ") else place.url)
        assert may_fail or ended.code == 0, (line, ended)
    elif found := re.match(r"([A-Z]+): (.*)", line, re.DOTALL):
        run_statements(Sql((put_words(found[2], place),)), place.words[found[1]])
    else:
        place.execute(put_words(line, place))


def run(command: str, place: Place, url: str) -> Ended:
    """Run a command on the database of a URL."""
    return rowtide(*(put_words(word, place) for word in shlex.split(command)), "--db", url)


def put_words(text: str, place: Place) -> str:
    """Return a text with the values of the place's words in capitals."""
    for word, value in place.words.items():
        text = re.sub(rf"\b{word}\b", value.replace("\\", r"\\"), text)
    return text
