"""The actions on a database, `rowtide.connect(url).actions`: what each does, and doing it once.

An action's entry is committed before it, its result after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

from rowtide.actions import errors
from rowtide.actions.entries import (
    RETENTION_DAYS,
    SUBJECTS,
    ActionEntry,
    ActionJournal,
    ActionKind,
    ActionOutcome,
    ActionRequest,
    BegunAction,
    Channel,
    journal_of,
    normalize_id,
)
from rowtide.actions.wording import (
    PAUSED,
    RESUMED,
    say_commented,
    say_compared,
    say_copied_again,
    say_decided,
    say_lost,
    say_posted,
    say_reinitialized,
    say_resolved,
    say_resolved_merge,
    say_started,
    say_stopped,
)
from rowtide.core.errors import RowtideError
from rowtide.core.failpoints import failpoint
from rowtide.core.redaction import redact

_DONE = "Done."


def perform(
    url: str, request: ActionRequest, run: Callable[[], str], *, keep_days: int = RETENTION_DAYS
) -> ActionEntry | None:
    """Do an action once: return its entry, with the stored result if the id was used before.

    `run` does it, and returns what it did, in words without values of rows. An action that fails has its error in the
    entry, which is returned; so has one whose process died, which has no end and is not done again. None: there is no
    audit, since rowtide does nothing in the database; the action was not done. Raises `ActionNotRecorded`,
    `ActionResultNotRecorded`, `ActionIdTaken`, and connection errors.
    """
    journal = journal_of(url)
    beginning = _begin(journal, url, request, keep_days)
    if not beginning.is_audited:
        return None
    if beginning.entry is not None:
        return _require_same(beginning.entry, request)
    try:
        with _ending(journal, url, request) as said:
            said.append(run())
    except RowtideError as error:
        if isinstance(error, errors.ActionResultNotRecorded):
            raise
    return journal.find_entry(url, request.action_id)


@contextmanager
def recording(url: str, request: ActionRequest, *, keep_days: int = RETENTION_DAYS) -> Iterator[list[str]]:
    """Record what the block does as an action, and how it ends; its errors pass. Raises as `perform`.

    Yields a list for what it did, in words without values of rows. Where there is no audit, the block runs without one:
    it will find out that rowtide does nothing there.
    """
    journal = journal_of(url)
    if _begin(journal, url, request, keep_days).is_audited:
        with _ending(journal, url, request) as said:
            yield said
    else:
        yield []


def _begin(journal: ActionJournal, url: str, request: ActionRequest, keep_days: int) -> BegunAction:
    try:
        return journal.begin(url, request, keep_days)
    except journal.UNWRITABLE as error:
        raise errors.ActionNotRecorded(request.action, error.filled_fact, error.filled_hint) from error


@contextmanager
def _ending(journal: ActionJournal, url: str, request: ActionRequest) -> Iterator[list[str]]:
    """Yield a list for what the action did, in words, and commit the end."""
    said: list[str] = []
    failpoint("action.before")
    try:
        yield said
    # An action that is interrupted, or whose process is asked to end, has an end, too: its entry is not left open.
    except BaseException as error:
        number = error.number if isinstance(error, RowtideError) else None
        _end(journal, url, request, ActionOutcome.FAILED, _describe(error), number)
        raise
    failpoint("action.after")
    _end(journal, url, request, ActionOutcome.DONE, " ".join(said) or _DONE, None)


def _end(
    journal: ActionJournal, url: str, request: ActionRequest, outcome: ActionOutcome, result: str, number: int | None
) -> None:
    try:
        journal.end(url, request.action_id, outcome, redact(result), number)
    except RowtideError as error:
        raise errors.ActionResultNotRecorded(request.action, outcome, request.action_id, str(error)) from error


def _describe(error: BaseException) -> str:
    """Return what an error says without values of rows, which those of others than rowtide may name."""
    return error.without_row if isinstance(error, RowtideError) else type(error).__name__


def _require_same(entry: ActionEntry, request: ActionRequest) -> ActionEntry:
    if (entry.action, entry.subject) != (request.action, request.subject):
        raise errors.ActionIdTaken(entry.action_id, entry.action, entry.subject)
    return entry


Arguments: TypeAlias = Mapping[str, Any]
_OPTIONAL = frozenset({"subscriber"})
"""Arguments without which an action is about all."""
_ACTOR = "actor"


def prepare(url: str, kind: ActionKind, arguments: Arguments, actor: str) -> Callable[[], str]:
    """Return what does an action of a person, and says what it did.

    Raises `ActionIncomplete` before anything is done.
    """
    given = {name: value for name, value in arguments.items() if value not in (None, "")}
    needed = [*(name for name in SUBJECTS[kind] if name not in _OPTIONAL or kind in _OF_ONE), *_NEEDED.get(kind, ())]
    if missing := [name for name in needed if name not in given]:
        raise errors.ActionIncomplete(kind, f"{', '.join(missing)} is missing")
    if unknown := given.keys() - {*SUBJECTS[kind], *_NEEDED.get(kind, ()), *_OPTIONS.get(kind, ())}:
        raise errors.ActionIncomplete(kind, f"it takes no {', '.join(sorted(unknown))}")
    return lambda: _DOING[kind](url, {**given, _ACTOR: actor})


def _pause(url: str, given: Arguments) -> str:
    from rowtide.replication.api import TransactionalReplication

    TransactionalReplication(url).pause(given["publication"], given.get("subscriber"))
    return PAUSED


def _resume(url: str, given: Arguments) -> str:
    from rowtide.replication.api import TransactionalReplication

    TransactionalReplication(url).resume(given["publication"], given.get("subscriber"))
    return RESUMED


def _post_tracer_token(url: str, given: Arguments) -> str:
    from rowtide.replication.api import TransactionalReplication

    return say_posted(TransactionalReplication(url).post_tracer_token(given["publication"]))


def _validate(url: str, given: Arguments) -> str:
    from rowtide.replication.api import TransactionalReplication
    from rowtide.replication.articles.requests import RowValidation
    from rowtide.replication.errors.conflicts import ValidationFailed
    from rowtide.replication.inspection.comparing import FAILED

    publication = given["publication"]
    wanted = RowValidation(publication, checksum=bool(given.get("checksum", False)))
    listed = TransactionalReplication(url).validate(wanted)
    failed = sum(row.message == FAILED for row in listed)
    if failed:
        raise ValidationFailed(publication, failed, len(listed))
    uncompared = sum(row.reason is not None for row in listed)
    return say_compared(len(listed) - uncompared, uncompared)


def _reinitialize(url: str, given: Arguments) -> str:
    from rowtide.replication.api import TransactionalReplication

    again = TransactionalReplication(url).reinitialize(given["publication"], given.get("subscriber"))
    return say_copied_again(len(again))


def _start_job(url: str, given: Arguments) -> str:
    from rowtide.cdc.api import ChangeDataCapture

    ChangeDataCapture(url).start_job(given["job"])
    return say_started(given["job"])


def _stop_job(url: str, given: Arguments) -> str:
    from rowtide.cdc.api import ChangeDataCapture

    ChangeDataCapture(url).stop_job(given["job"])
    return say_stopped(given["job"])


def _reinitialize_capture(url: str, given: Arguments) -> str:
    from rowtide.cdc.api import ChangeDataCapture

    lost = ChangeDataCapture(url).reinitialize(given.get("reason", "reinitialized by hand"))
    return say_lost(lost)


def _validate_merge(url: str, given: Arguments) -> str:
    from rowtide.merge.api import MergeReplication
    from rowtide.merge.errors.rows import MergeValidationFailed

    checksum = bool(given.get("checksum", False))
    listed = MergeReplication(url).validate(given["publication"], given["subscriber"], checksum=checksum)
    failed = sum(not row.is_equal for row in listed)
    if failed:
        raise MergeValidationFailed(given["subscriber"], failed, len(listed))
    return say_compared(len(listed))


def _reinitialize_merge(url: str, given: Arguments) -> str:
    from rowtide.merge.api import MergeReplication

    summary = MergeReplication(url).reinitialize(
        given["publication"], given["subscriber"], upload_first=bool(given.get("upload_first", False))
    )
    return say_reinitialized(summary)


def _resolve(url: str, given: Arguments) -> str:
    from rowtide.replication.api import TransactionalReplication
    from rowtide.replication.conflict_decisions import ConflictWinner

    outcome = TransactionalReplication(url).resolve(
        given["conflict"],
        given["subscriber"],
        ConflictWinner(given["winner"]),
        over_later_changes=bool(given.get("over_later_changes", False)),
        again=bool(given.get("again", False)),
        decided_by=given[_ACTOR],
    )
    return say_resolved(is_written=bool(outcome.rows), waits=outcome.waits)


def _resolve_merge(url: str, given: Arguments) -> str:
    from rowtide.merge.api import MergeReplication
    from rowtide.merge.conflicts.resolvers import Winner

    is_written = MergeReplication(url).resolve(
        given["conflict"],
        Winner(given["winner"]),
        over_later_changes=bool(given.get("over_later_changes", False)),
        decided_by=given[_ACTOR],
    )
    return say_resolved_merge(is_written=is_written)


def _decide(url: str, given: Arguments) -> str:
    from rowtide.conflicts.errors import DecisionsFailed
    from rowtide.conflicts.handle import ConflictInbox, list_refused

    results = list(
        ConflictInbox(url).decide(
            given["name"],
            given["choice"],
            over_later_changes=bool(given.get("over_later_changes", False)),
            again=bool(given.get("again", False)),
            decided_by=given[_ACTOR],
        )
    )
    failed = sum(one.failure is not None for one in results)
    if failed and failed == len(results):
        raise DecisionsFailed(failed, len(results), list_refused(results))
    written = sum(one.is_written for one in results)
    refused = f" Refused: {failed}: {list_refused(results)}." if failed else ""
    return say_decided(len(results) - failed, written) + refused


def _comment(url: str, given: Arguments) -> str:
    from rowtide.conflicts.handle import ConflictInbox

    return say_commented(ConflictInbox(url).comment(given["name"], given["text"], noted_by=given[_ACTOR]))


_OF_ONE = frozenset({ActionKind.RESOLVE, ActionKind.VALIDATE_MERGE, ActionKind.REINITIALIZE_MERGE})
"""Actions that are about one subscriber."""
_NEEDED: Mapping[ActionKind, tuple[str, ...]] = {
    ActionKind.RESOLVE: ("winner",),
    ActionKind.RESOLVE_MERGE: ("winner",),
    ActionKind.DECIDE: ("choice",),
    ActionKind.COMMENT: ("text",),
}
_OPTIONS: Mapping[ActionKind, tuple[str, ...]] = {
    ActionKind.VALIDATE: ("checksum",),
    ActionKind.VALIDATE_MERGE: ("checksum",),
    ActionKind.REINITIALIZE_CAPTURE: ("reason",),
    ActionKind.REINITIALIZE_MERGE: ("upload_first",),
    ActionKind.RESOLVE: ("over_later_changes", "again"),
    ActionKind.RESOLVE_MERGE: ("over_later_changes",),
    ActionKind.DECIDE: ("over_later_changes", "again"),
}
_DOING: Mapping[ActionKind, Callable[[str, Arguments], str]] = {
    ActionKind.PAUSE: _pause,
    ActionKind.RESUME: _resume,
    ActionKind.TRACER_TOKEN: _post_tracer_token,
    ActionKind.VALIDATE: _validate,
    ActionKind.REINITIALIZE: _reinitialize,
    ActionKind.RESOLVE: _resolve,
    ActionKind.START_JOB: _start_job,
    ActionKind.STOP_JOB: _stop_job,
    ActionKind.REINITIALIZE_CAPTURE: _reinitialize_capture,
    ActionKind.VALIDATE_MERGE: _validate_merge,
    ActionKind.REINITIALIZE_MERGE: _reinitialize_merge,
    ActionKind.RESOLVE_MERGE: _resolve_merge,
    ActionKind.DECIDE: _decide,
    ActionKind.COMMENT: _comment,
}


MOST_LISTED = 1000


class Actions:
    """Actions that are done once, each with its outcome in the audit."""

    def __init__(self, url: str) -> None:
        self.url = url

    def list_entries(self, *, limit: int = MOST_LISTED) -> Sequence[ActionEntry]:
        """Return the last entries of the audit, newest first; none where nothing was done yet."""
        return journal_of(self.url).list_entries(self.url, limit)

    def purge(self, days: int) -> int:
        """Delete the entries older than a number of days; return how many.

        Those older than `keep_days` of `perform`, 365 days by default, are deleted with the next action anyway.
        """
        return journal_of(self.url).purge(self.url, days)

    def find_entry(self, action_id: str) -> ActionEntry | None:
        """Return the entry of an action's id. Raises `ActionIdInvalid`."""
        return journal_of(self.url).find_entry(self.url, normalize_id(action_id))

    def perform(
        self,
        action: ActionKind | str,
        arguments: Mapping[str, Any],
        *,
        actor: str,
        channel: Channel = Channel.API,
        action_id: str | None = None,
        keep_days: int = RETENTION_DAYS,
    ) -> ActionEntry | None:
        """Do an action as the command of that name does it, and return its entry, which has its result.

        `arguments` are the command's, by their names: `{"publication": "shop"}`. An id, a UUID, that was used before
        is not done again: its entry is returned. An error of the action is in its entry. Entries that are older than
        `keep_days` are deleted. None: rowtide does nothing in this database. Raises `ActionUnknown`,
        `ActionIncomplete`, `ActionIdInvalid`, `ActionIdTaken`, `ActionNotRecorded` of a database that cannot be
        written, and connection errors.
        """

        kind = parse_kind(action)
        run = prepare(self.url, kind, arguments, actor)
        request = ActionRequest.make(kind, arguments, actor=actor, channel=channel, action_id=action_id)
        return perform(self.url, request, run, keep_days=keep_days)


def parse_kind(name: ActionKind | str) -> ActionKind:
    """Return the action of a name. Raises `ActionUnknown`."""
    if name not in set(ActionKind):
        raise errors.ActionUnknown(name, ", ".join(ActionKind))
    return ActionKind(name)
