"""What the state machines of merging have in common: members, synchronisations whole and cut, and the end."""

from __future__ import annotations

import sqlite3
import tempfile
from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Any, ClassVar

import psycopg
from hypothesis import HealthCheck, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from builders.merge.merge_interruptions import nothing_applied_ahead
from builders.merge.merged_databases import (
    FileMember,
    Member,
    Merge,
    open_file_member,
    open_server_member,
)
from fixtures.servers import fresh_database
from rowtide.databases.postgres.embedded import EmbeddedServer

MEMBERS = st.integers(0, 3)
KEYS = st.integers(1, 4)
TEXTS = st.sampled_from(["a", "b", "c", None])
COMMITS = st.integers(1, 14)
WITHOUT_READERS = st.sampled_from([0, 1, 3])
"""Those at which a program may write while an agent reads: not the file with a journal."""
Opening = Callable[[ExitStack], Sequence[Member]]


class MergeMachine(RuleBasedStateMachine):
    """Programs write at all nodes as they please; what their own constraints refuse does not happen."""

    opening: ClassVar[Opening]
    """Opens the hub and the subscribers, for one example."""
    options: ClassVar[dict[str, Any]] = {}
    """Of all articles."""

    def __init__(self) -> None:
        super().__init__()
        self._opened = ExitStack()
        try:
            self.merge = self.make(type(self).opening(self._opened))
            self.begin()
        except BaseException:
            self._opened.close()
            raise

    def make(self, members: Sequence[Member]) -> Merge:
        """Return the hub and its subscribers, of the members that were opened."""
        return Merge(members[0], members[1:])

    @abstractmethod
    def begin(self) -> None:
        """Publish and subscribe."""

    @abstractmethod
    def come_to_rest(self) -> None:
        """After quiet rounds all is as it must be, and more rounds move nothing."""

    def teardown(self) -> None:
        try:
            self.come_to_rest()
        finally:
            self._opened.close()

    @rule(number=st.integers(0, 2), is_applied=st.booleans())
    def synchronise(self, number: int, is_applied: bool) -> None:  # noqa: FBT001 - of the rule
        with nullcontext() if is_applied else nothing_applied_ahead():
            self.merge.sync(number % len(self.merge.subscribers))

    @rule(number=st.integers(0, 2), commits=COMMITS, is_before=st.booleans())
    def synchronise_cut(self, number: int, commits: int, is_before: bool) -> None:  # noqa: FBT001 - of the rule
        self.merge.cut_sync(number % len(self.merge.subscribers), commits, is_before=is_before)

    def require_quiet(self, rounds: int = 4) -> None:
        """After some rounds foreign keys hold, and two more rounds move nothing."""
        self.merge.settle(rounds)
        require_foreign_keys(self.merge)

    def require_valid(self) -> None:
        self.merge.require_valid()

    def require_nothing_moves(self) -> None:
        assert all(summary.is_quiet for summary in self.merge.settle(2))

    def beside(self, number: int, commits: int, member: int, statement: str) -> None:
        """Synchronise, and let a program write after a commit."""
        self.merge.sync_beside(number, commits, lambda: self.ignore(member, statement))

    def attempt(self, member: int, *statements: str) -> bool:
        """Let a program do something; return whether its database took it."""
        return attempt(self.merge.members[member], *statements)

    def ignore(self, member: int, statement: str) -> None:
        """Let a program do something that its own database may refuse."""
        self.attempt(member, statement)


def run_machine(
    machine: type[RuleBasedStateMachine], opening: Opening, examples: int, steps: int = 25, **attributes: Any
) -> None:
    """Run a machine on members of an opening; `attributes` are those of its class."""
    made = {"opening": staticmethod(opening), **attributes}
    run_state_machine_as_test(
        type(machine.__name__, (machine,), made),
        settings=settings(
            max_examples=examples, stateful_step_count=steps, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )


def require_foreign_keys(merge: Merge) -> None:
    for member in merge.members:
        if isinstance(member, FileMember):
            assert member.execute("pragma foreign_key_check") == []


def attempt(member: Member, *statements: str) -> bool:
    """Let a program do something that its own database may refuse; return whether it was taken."""
    try:
        member.execute(*statements)
    except (sqlite3.IntegrityError, psycopg.IntegrityError):
        if len(statements) > 1:
            member.execute("rollback")
        return False
    return True


def written(value: str | int | None) -> str:
    """Return a value as SQL has it."""
    return "null" if value is None else repr(value)


def open_files(opened: ExitStack) -> list[Member]:
    """Open a hub and three subscribers, all files, one of them with a journal."""
    folder = Path(opened.enter_context(tempfile.TemporaryDirectory()))
    return [
        opened.enter_context(open_file_member(folder / f"{number}.db", journal=journal))
        for number, journal in enumerate(["wal", "wal", "delete", "wal"])
    ]


def open_mixed(opened: ExitStack, server: EmbeddedServer, at: Sequence[int]) -> list[Member]:
    """Open a hub and three subscribers: databases of a server at some places, from 0, files at the others."""
    return [
        opened.enter_context(open_server_member(opened.enter_context(fresh_database(server)))) if place in at else file
        for place, file in enumerate(open_files(opened))
    ]
