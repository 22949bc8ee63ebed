"""Business logic handlers: Python classes that decide about changes and conflicts.

(SQL Server: the business logic handler framework.) A handler is a class that the publisher provides, named by
`--resolver python:module.Class`. It runs in the agent's process, one row at a time, within the transaction that writes
the row. Rows are dictionaries of texts by column name, as PostgreSQL writes them, with None for NULL; a deleted row is
None. An exception from a handler ends the synchronisation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum, IntEnum, IntFlag
from functools import partial
from importlib import import_module
from typing import TypeVar

from rowtide.core.values import frozen
from rowtide.merge.articles import Article
from rowtide.merge.conflicts.resolvers import PYTHON, Contest, Custom, Verdict, Winner, by_priority
from rowtide.merge.errors.nodes import HandlerFailed
from rowtide.merge.errors.publishing import ResolverUnknown
from rowtide.merge.versions.changes import Row

Values = dict[str, str | None]
Result = TypeVar("Result")
Action = TypeVar("Action", bound=IntEnum)


class ChangeStates(IntFlag):
    """The changes that a handler is called for, numbered as in SQL Server."""

    SUBSCRIBER_INSERTS = 8
    SUBSCRIBER_UPDATES = 16
    SUBSCRIBER_DELETES = 32
    UPDATE_CONFLICTS = 64
    PUBLISHER_UPDATE_SUBSCRIBER_DELETE_CONFLICTS = 128
    SUBSCRIBER_UPDATE_PUBLISHER_DELETE_CONFLICTS = 256


class ActionOnDataChange(IntEnum):
    """What to do with a change that a subscriber sent."""

    REJECT_DATA = 0
    """The change is undone at the subscriber, and recorded as a conflict."""
    ACCEPT_DATA = 1
    ACCEPT_CUSTOM_DATA = 2
    """The row that the handler returns is written instead."""


class ActionOnUpdateConflict(IntEnum):
    """What to do with a row that was updated at both ends."""

    ACCEPT_DEFAULT_RESOLUTION = 0
    ACCEPT_PUBLISHER_DATA = 1
    ACCEPT_SUBSCRIBER_DATA = 2
    ACCEPT_CUSTOM_CONFLICT_DATA = 3


class ActionOnUpdateDeleteConflict(IntEnum):
    """What to do with a row that was updated at one end and deleted at the other."""

    ACCEPT_DEFAULT_RESOLUTION = 0
    ACCEPT_UPDATE = 1
    ACCEPT_DELETE = 2
    ACCEPT_CUSTOM_DATA = 3


class BusinessLogicHandler:
    """Base class of handlers; each method here keeps the default outcome."""

    handled_change_states = ChangeStates(0)

    def initialize(self, publication: str, subscriber: str, article: str) -> None:
        """Receive the names of what is synchronised; called first."""

    def insert_handler(self, row: Values) -> tuple[ActionOnDataChange, Values | None]:
        """Decide about a row that a subscriber inserted."""
        del row
        return ActionOnDataChange.ACCEPT_DATA, None

    def update_handler(self, row: Values, publisher_row: Values) -> tuple[ActionOnDataChange, Values | None]:
        """Decide about a row that a subscriber updated."""
        del row, publisher_row
        return ActionOnDataChange.ACCEPT_DATA, None

    def delete_handler(self, publisher_row: Values) -> ActionOnDataChange:
        """Decide about a row that a subscriber deleted; custom data is not possible."""
        del publisher_row
        return ActionOnDataChange.ACCEPT_DATA

    def update_conflicts_handler(
        self, publisher_row: Values, subscriber_row: Values
    ) -> tuple[ActionOnUpdateConflict, Values | None]:
        """Decide about a row that was updated at both ends."""
        del publisher_row, subscriber_row
        return ActionOnUpdateConflict.ACCEPT_DEFAULT_RESOLUTION, None

    def update_delete_conflict_handler(
        self, publisher_row: Values | None, subscriber_row: Values | None
    ) -> tuple[ActionOnUpdateDeleteConflict, Values | None]:
        """Decide about a row that was updated at one end and deleted at the other; the deleted side is None."""
        del publisher_row, subscriber_row
        return ActionOnUpdateDeleteConflict.ACCEPT_DEFAULT_RESOLUTION, None

    def commit_handler(self) -> None:
        """Called when all of the subscriber's changes are at the publisher."""


@contextmanager
def _calling(article: Article, method: str) -> Iterator[None]:
    """Raise `HandlerFailed` for any exception of a user's method."""
    try:
        yield
    except (Exception, SystemExit) as error:
        # Code of the user's, which may raise anything; which method did it is what the user needs to know. Ctrl-C, too,
        # raises `KeyboardInterrupt` here, and ends the command.
        raise HandlerFailed(article.resolver, method, article.name, f"{type(error).__name__}: {error}") from error


@frozen
class ArticleHandler:
    """Adapter that calls an article's handler with merge's own types."""

    article: Article
    handler: BusinessLogicHandler

    @classmethod
    def begin(
        cls, article: Article, found: type[BusinessLogicHandler], publication: str, subscriber: str
    ) -> ArticleHandler:
        """Create an article's handler, and pass it the names of what is synchronised. Raises `HandlerFailed`."""
        with _calling(article, "__init__"):
            asked = cls(article, found())
        asked._ask("initialize", partial(asked.handler.initialize, publication, subscriber, article.name))
        return asked

    def resolve(self, contest: Contest) -> Verdict:
        """Decide a conflict; by priority if the handler leaves it to the default."""
        publisher, subscriber = self._values(contest.publisher_row), self._values(contest.subscriber_row)
        if publisher is not None and subscriber is not None:
            return self._resolve_updates(contest, publisher, subscriber)
        is_publishers = publisher is not None
        state = (
            ChangeStates.PUBLISHER_UPDATE_SUBSCRIBER_DELETE_CONFLICTS
            if is_publishers
            else ChangeStates.SUBSCRIBER_UPDATE_PUBLISHER_DELETE_CONFLICTS
        )
        if state not in self.handler.handled_change_states:
            return by_priority(contest)
        ask = partial(self.handler.update_delete_conflict_handler, publisher, subscriber)
        action, custom = self._answer("update_delete_conflict_handler", ActionOnUpdateDeleteConflict, ask)
        updater = Winner.PUBLISHER if is_publishers else Winner.SUBSCRIBER
        deleter = Winner.SUBSCRIBER if is_publishers else Winner.PUBLISHER
        match action:
            case ActionOnUpdateDeleteConflict.ACCEPT_UPDATE:
                return updater
            case ActionOnUpdateDeleteConflict.ACCEPT_DELETE:
                return deleter
            case ActionOnUpdateDeleteConflict.ACCEPT_CUSTOM_DATA:
                return Custom(updater, self._row("update_delete_conflict_handler", custom))
            case ActionOnUpdateDeleteConflict.ACCEPT_DEFAULT_RESOLUTION:
                return by_priority(contest)

    def on_change(self, row: Row | None, publisher_row: Row | None) -> tuple[ActionOnDataChange, Row | None]:
        """Ask about a change without conflict; the returned row is the handler's own, or None."""
        sent, known = self._values(row), self._values(publisher_row)
        states = self.handler.handled_change_states
        custom: Values | None = None
        action, asked = ActionOnDataChange.ACCEPT_DATA, ""
        if sent is None and known is not None and ChangeStates.SUBSCRIBER_DELETES in states:
            asked = "delete_handler"
            action, _ = self._answer(asked, ActionOnDataChange, lambda: (self.handler.delete_handler(known), None))
        elif sent is not None and known is None and ChangeStates.SUBSCRIBER_INSERTS in states:
            asked, ask = "insert_handler", partial(self.handler.insert_handler, sent)
            action, custom = self._answer(asked, ActionOnDataChange, ask)
        elif sent is not None and known is not None and ChangeStates.SUBSCRIBER_UPDATES in states:
            asked, ask = "update_handler", partial(self.handler.update_handler, sent, known)
            action, custom = self._answer(asked, ActionOnDataChange, ask)
        if action is ActionOnDataChange.ACCEPT_CUSTOM_DATA:
            return action, self._row(asked, custom)
        return action, None

    def commit(self) -> None:
        """Call the handler at the end of the upload."""
        self._ask("commit_handler", self.handler.commit_handler)

    def _resolve_updates(self, contest: Contest, publisher: Values, subscriber: Values) -> Verdict:
        if ChangeStates.UPDATE_CONFLICTS not in self.handler.handled_change_states:
            return by_priority(contest)
        ask = partial(self.handler.update_conflicts_handler, publisher, subscriber)
        action, custom = self._answer("update_conflicts_handler", ActionOnUpdateConflict, ask)
        match action:
            case ActionOnUpdateConflict.ACCEPT_PUBLISHER_DATA:
                return Winner.PUBLISHER
            case ActionOnUpdateConflict.ACCEPT_SUBSCRIBER_DATA:
                return Winner.SUBSCRIBER
            case ActionOnUpdateConflict.ACCEPT_CUSTOM_CONFLICT_DATA:
                default = by_priority(contest)
                return Custom(default, self._row("update_conflicts_handler", custom))
            case ActionOnUpdateConflict.ACCEPT_DEFAULT_RESOLUTION:
                return by_priority(contest)

    def _answer(
        self, method: str, actions: type[Action], ask: Callable[[], tuple[Action, Values | None]]
    ) -> tuple[Action, Values | None]:
        """Return what a method answers: an action of its kind, and custom data. Raises `HandlerFailed`."""
        answer: object = self._ask(method, ask)
        if not isinstance(answer, tuple) or len(answer) != 2:
            raise self._failed(
                method, f"it has to return an action, and custom data or None, not {type(answer).__name__}"
            )
        action, custom = answer
        # Actions are numbers that mean something else in another kind: an action of another kind is refused.
        if isinstance(action, Enum) and not isinstance(action, actions):
            raise self._failed(method, f"{action} is not of {actions.__name__}")
        try:
            return actions(action), custom
        except ValueError as error:
            raise self._failed(method, f"{action!r} is not of {actions.__name__}") from error

    def _ask(self, method: str, ask: Callable[[], Result]) -> Result:
        with _calling(self.article, method):
            return ask()

    def _failed(self, method: str, reason: str) -> HandlerFailed:
        return HandlerFailed(self.article.resolver, method, self.article.name, reason)

    def _values(self, row: Row | None) -> Values | None:
        if row is None:
            return None
        return {column.name: value for column, value in zip(self.article.columns, row, strict=True)}

    def _row(self, method: str, values: Values | None) -> Row:
        names = [column.name for column in self.article.columns]
        if values is None or set(values) != set(names):
            raise self._failed(method, f"its custom data have not the columns {', '.join(names)}")
        for name, value in values.items():
            if not isinstance(value, str | None):
                raise self._failed(method, f"{name} in its custom data is no text, but {type(value).__name__}")
        return tuple(values[name] for name in names)


def find_handler(article: Article) -> type[BusinessLogicHandler] | None:
    """Return the class that an article's resolver names; None if it names none. Raises `ResolverUnknown`."""
    kind, _, path = article.resolver.partition(":")
    if kind != PYTHON:
        return None
    module, _, name = path.rpartition(".")
    try:
        found = getattr(import_module(module), name)
    except (Exception, SystemExit) as error:
        # A module of the user's may raise anything as it is imported.
        said = f"{type(error).__name__}: {error}"
        raise ResolverUnknown(article.resolver, article.name, f"a class that can be imported here ({said})") from error
    if not (isinstance(found, type) and issubclass(found, BusinessLogicHandler)):
        needed = "a subclass of rowtide.merge.handlers.BusinessLogicHandler"
        raise ResolverUnknown(article.resolver, article.name, needed)
    return found
