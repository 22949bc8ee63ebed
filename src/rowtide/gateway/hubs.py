"""The hubs that a gateway serves: their databases, and the threads that work with them.

Each thread keeps one connection to each hub between requests: a node is used only by the thread that opened it.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from rowtide.core.errors import RowtideError
from rowtide.core.values import frozen
from rowtide.databases.postgres.errors import NOT_CONNECTED
from rowtide.databases.urls import parse_url
from rowtide.gateway.errors import HubNotReached, HubTwice, NothingToServe
from rowtide.merge.articles import DEFAULT_LIMITS
from rowtide.merge.nodes.connecting import open_node
from rowtide.merge.nodes.node import Node

Result = TypeVar("Result")


@frozen
class Hub:
    """A hub's database, and its name in addresses."""

    name: str
    url: str


def name_hubs(given: Sequence[str], find_url: Callable[[str], str]) -> Mapping[str, Hub]:
    """Return hubs by their names: those of the configuration file, else the databases' own.

    Raises `NothingToServe`, `HubTwice`, `UrlNotRead`.
    """
    found: dict[str, Hub] = {}
    for text in given:
        url = find_url(text)
        name = text if url != text else _name_of(url)
        if name in found:
            raise HubTwice(name)
        found[name] = Hub(name, url)
    if not found:
        raise NothingToServe
    return found


def _name_of(url: str) -> str:
    """Return the name that a database has in addresses: a file's is that of the file."""
    parsed = parse_url(url)
    return Path(parsed.name).stem if parsed.kind.is_file else parsed.name


class Workers:
    """A pool of threads that run functions with a hub's node, in the order of submission."""

    def __init__(self, number: int) -> None:
        self._tasks: queue.SimpleQueue[Callable[[dict[str, ExitStack], dict[str, Node]], None] | None] = (
            queue.SimpleQueue()
        )
        self._threads = [
            threading.Thread(target=self._work, name=f"gateway-{place}", daemon=True) for place in range(number)
        ]

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run the threads during the block; at its end, work in progress is completed."""
        for thread in self._threads:
            thread.start()
        try:
            yield
        finally:
            for _ in self._threads:
                self._tasks.put(None)
            for thread in self._threads:
                thread.join()

    def submit(self, hub: Hub, work: Callable[[Node], Result]) -> Future[Result]:
        """Run a function with a hub's node. The future raises what the function raises, and `HubNotReached`."""
        future: Future[Result] = Future()

        def run(closing: dict[str, ExitStack], nodes: dict[str, Node]) -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(self._run(hub, work, closing, nodes))
            except BaseException as error:  # noqa: BLE001 - raised where the result is asked for
                future.set_exception(error)

        self._tasks.put(run)
        return future

    def _work(self) -> None:
        closing: dict[str, ExitStack] = {}
        nodes: dict[str, Node] = {}
        while (task := self._tasks.get()) is not None:
            task(closing, nodes)
        for one in closing.values():
            one.close()

    def _run(self, hub: Hub, work: Callable[[Node], Any], closing: dict[str, ExitStack], nodes: dict[str, Node]) -> Any:
        was_kept = hub.name in nodes
        try:
            if not was_kept:
                closing[hub.name] = stack = ExitStack()
                nodes[hub.name] = stack.enter_context(open_node(hub.url, DEFAULT_LIMITS))
            node = nodes[hub.name]
            with node.failing():
                return work(node)
        except NOT_CONNECTED as error:
            _forget(hub, closing, nodes)
            raise HubNotReached(hub.name) from error
        except RowtideError:
            # The transaction was rolled back; the connection can be used again.
            raise
        except BaseException:
            _forget(hub, closing, nodes)
            raise


def _forget(hub: Hub, closing: dict[str, ExitStack], nodes: dict[str, Node]) -> None:
    nodes.pop(hub.name, None)
    if (stack := closing.pop(hub.name, None)) is not None:
        stack.close()
