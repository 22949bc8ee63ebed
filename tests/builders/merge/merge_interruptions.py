"""What happens at one of a synchronisation's commits: the connection breaks, or a program writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, cast
from unittest.mock import patch

from rowtide.merge.nodes.node import Node
from rowtide.merge.nodes.postgres.node import PostgresNode
from rowtide.merge.nodes.rows import RowWriter
from rowtide.merge.nodes.sqlite.node import SqliteNode


class Cut(Exception):
    """The connection between two nodes broke."""


class Interruption(Protocol):
    """Told of all transactions of both nodes."""

    def begins(self) -> None: ...

    def will_commit(self) -> None: ...

    def has_committed(self) -> None: ...


@dataclass
class Cutter:
    """Breaks the connection at a commit, counted from 1; nothing is written any more after that."""

    at: int
    is_before: bool = field(kw_only=True)
    commits: int = 0

    def begins(self) -> None:
        if self.commits >= self.at:
            raise Cut

    def will_commit(self) -> None:
        self.commits += 1
        if self.commits >= self.at and self.is_before:
            raise Cut

    def has_committed(self) -> None:
        if self.commits >= self.at:
            raise Cut


@dataclass
class Beside:
    """Does something after a commit, counted from 1, as a program would that is at work meanwhile."""

    at: int
    action: Callable[[], None]
    commits: int = 0

    def begins(self) -> None:
        """Nothing is done within a transaction: the program would wait for it."""

    def will_commit(self) -> None:
        self.commits += 1

    def has_committed(self) -> None:
        if self.commits == self.at:
            self.action()


def interrupted(node: Node, interruption: Interruption) -> Node:
    """Return a node with an interruption that is called with its transactions; all else is the node's own."""
    return cast("Node", _InterruptedNode(node, interruption))


@contextmanager
def nothing_applied_ahead() -> Iterator[None]:
    """As when programs write all there is in the moment before an agent's snapshot."""
    with ExitStack() as patched:
        for node in (SqliteNode, PostgresNode):
            patched.enter_context(patch.object(node, "apply_log", lambda _node: None))
        yield


class _InterruptedNode:
    def __init__(self, node: Node, interruption: Interruption) -> None:
        self._node = node
        self._interruption = interruption
        self.writer = _UncommittingWriter(node.writer)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._node, name)

    @contextmanager
    def transaction(self, *, is_durable: bool = True, is_repeatable: bool = False) -> Iterator[None]:
        self._interruption.begins()
        with self._node.transaction(is_durable=is_durable, is_repeatable=is_repeatable):
            yield
            self._interruption.will_commit()
        self._interruption.has_committed()


class _UncommittingWriter:
    def __init__(self, writer: RowWriter) -> None:
        self._writer = writer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._writer, name)

    def write_each(self, *arguments: Any, commits: bool = False, **options: Any) -> Any:
        # A server would commit with them; here something happens in between.
        return self._writer.write_each(*arguments, **options)
