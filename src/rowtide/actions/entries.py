"""Actions as values: which there are, what is asked for, and what the audit of a database has of each."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import Enum, StrEnum
from typing import Any, Protocol, cast
from uuid import UUID, uuid4

from rowtide.actions.errors import ActionIdInvalid
from rowtide.core.errors import RowtideError
from rowtide.core.formats import StoreFormat
from rowtide.core.redaction import MASK, redact
from rowtide.core.values import frozen
from rowtide.databases.urls import parse_url

TABLE = "rowtide_actions"
"""The audit's table, in a file and in a database's schema alike."""
FORMAT = StoreFormat("audit of actions")
RETENTION_DAYS = 365
"""Each new entry deletes older ones, unless the caller has another setting."""


class ActionKind(StrEnum):
    """An action, by the name of the command that does it."""

    PAUSE = "replication pause"
    RESUME = "replication resume"
    TRACER_TOKEN = "replication post-tracer-token"  # noqa: S105 - it is no secret
    VALIDATE = "replication validate"
    REINITIALIZE = "replication reinitialize"
    RESOLVE = "replication resolve"
    START_JOB = "cdc start-job"
    STOP_JOB = "cdc stop-job"
    REINITIALIZE_CAPTURE = "cdc reinitialize"
    VALIDATE_MERGE = "merge validate"
    REINITIALIZE_MERGE = "merge reinitialize"
    RESOLVE_MERGE = "merge resolve"
    DECIDE = "conflicts decide"
    COMMENT = "conflicts comment"


class DeviceAction(StrEnum):
    """What is done for a device that synchronises over HTTP: a command, or a step that its gateway has done."""

    ADD = "merge add-device"
    REVOKE = "merge revoke-device"
    ROTATE = "merge rotate-token"
    REGISTER = "gateway register"
    FILE = "gateway file"


class Channel(StrEnum):
    """How an action was asked for."""

    COMMAND_LINE = "command line"
    WEB = "web"
    API = "api"
    GATEWAY = "gateway"


class ActionOutcome(StrEnum):
    """How an action ended; without an end it runs, or its process has died."""

    BEGUN = "begun"
    DONE = "done"
    FAILED = "failed"


SUBJECTS: Mapping[ActionKind, tuple[str, ...]] = {
    ActionKind.PAUSE: ("publication", "subscriber"),
    ActionKind.RESUME: ("publication", "subscriber"),
    ActionKind.TRACER_TOKEN: ("publication",),
    ActionKind.VALIDATE: ("publication",),
    ActionKind.REINITIALIZE: ("publication", "subscriber"),
    ActionKind.RESOLVE: ("conflict", "subscriber"),
    ActionKind.START_JOB: ("job",),
    ActionKind.STOP_JOB: ("job",),
    ActionKind.REINITIALIZE_CAPTURE: (),
    ActionKind.VALIDATE_MERGE: ("publication", "subscriber"),
    ActionKind.REINITIALIZE_MERGE: ("publication", "subscriber"),
    ActionKind.RESOLVE_MERGE: ("conflict",),
    ActionKind.DECIDE: ("name",),
    ActionKind.COMMENT: ("name",),
}
"""The arguments that name what an action is about."""
_SHOWN_TEXTS = frozenset({"article", "choice", "reason", "winner"})
"""Arguments that are texts and never a row's key or value."""


@frozen
class ActionRequest:
    """A requested action; `action_id` is chosen by the caller, and the same in a repeated request.

    `subject` and `arguments` have no secrets and no values of rows.
    """

    action_id: str
    action: ActionKind | DeviceAction
    subject: str
    arguments: Mapping[str, Any]
    actor: str
    channel: Channel

    @classmethod
    def make(
        cls,
        action: ActionKind | DeviceAction,
        given: Mapping[str, Any],
        *,
        actor: str,
        channel: Channel,
        action_id: str | None = None,
    ) -> ActionRequest:
        """Return the request of an action with all that it is given. Raises `ActionIdInvalid`."""
        named = ("name",) if isinstance(action, DeviceAction) else SUBJECTS[action]
        subject = " to ".join(redact(str(given[name])) for name in named if given.get(name) is not None)
        rest = {name: value for name, value in given.items() if name not in named and _is_given(value)}
        arguments = {name: _without_value(name, value) for name, value in rest.items()}
        own_id = str(uuid4()) if action_id is None else normalize_id(action_id)
        return cls(own_id, action, subject, arguments, actor, channel)

    @property
    def arguments_json(self) -> str:
        """The arguments as a JSON object."""
        return json.dumps(self.arguments, ensure_ascii=False, sort_keys=True)


@frozen
class ActionEntry:
    """An action as the audit has it; `arguments` is a JSON object, `result` has no values of rows."""

    action_id: str
    begun_at: datetime
    actor: str
    channel: str
    action: str
    subject: str
    arguments: str
    outcome: ActionOutcome
    ended_at: datetime | None = None
    result: str | None = None
    error_number: int | None = None


def normalize_id(text: str) -> str:
    """Return an action's id, a UUID, in the one way of writing it. Raises `ActionIdInvalid`."""
    try:
        return str(UUID(text))
    except ValueError as error:
        raise ActionIdInvalid from error


def _is_given(value: Any) -> bool:
    return value is not None and value is not False and value != ()


def _without_value(name: str, value: Any) -> Any:
    """Return an argument as it is stored: a text could have a row's value, a flag, number or word has none."""
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, bool | int | float):
        return value
    return redact(value) if name in _SHOWN_TEXTS and isinstance(value, str) else MASK


@frozen
class BegunAction:
    """What is known as an action begins: the entry that its id has already, and whether there is an audit.

    A database in which rowtide does nothing gets no audit: nothing can be done there.
    """

    entry: ActionEntry | None
    is_audited: bool


class ActionJournal(Protocol):
    """The audit of one kind of database; every method opens and closes its own connection."""

    UNWRITABLE: tuple[type[RowtideError], ...]
    """What is raised where no entry can be written."""

    def begin(self, url: str, request: ActionRequest, keep_days: int) -> BegunAction:
        """Commit the entry of an action, unless its id has one, and delete entries older than a number of days.

        Makes the table where there is none.
        """

    def end(self, url: str, action_id: str, outcome: ActionOutcome, result: str, error_number: int | None) -> None:
        """Commit the end of an action that has none."""

    def purge(self, url: str, days: int) -> int:
        """Delete the entries that began more than a number of days ago; return how many."""

    def find_entry(self, url: str, action_id: str) -> ActionEntry | None:
        """Return the entry of an id."""

    def list_entries(self, url: str, limit: int) -> Sequence[ActionEntry]:
        """Return the last entries, newest first; none where there is no audit."""


def journal_of(url: str) -> ActionJournal:
    """Return the audit of a database's kind. Raises `UrlNotRead`, `DatabaseKindUnknown`, `ExtraMissing`."""
    return cast("ActionJournal", parse_url(url).kind.load_part("rowtide.actions", "audit"))
