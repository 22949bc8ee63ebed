"""Doing an action: its entry is committed before it, its result after it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rowtide.actions.entries import ActionEntry, ActionOutcome, ActionRequest
from rowtide.actions.errors import ActionIdTaken, ActionNotRecorded, ActionResultNotRecorded
from rowtide.actions.journal import ActionJournal, BegunAction, journal_of
from rowtide.core.errors import RowtideError
from rowtide.core.failpoints import failpoint
from rowtide.core.redaction import redact

_DONE = "Done."


def perform(url: str, request: ActionRequest, run: Callable[[], str]) -> ActionEntry | None:
    """Do an action once: return its entry, with the stored result if the id was used before.

    `run` does it, and returns what it did, in words without values of rows. An action that fails has its error in the
    entry, which is returned; so has one whose process died, which has no end and is not done again. None: there is no
    audit, since rowtide does nothing in the database; the action was not done. Raises `ActionNotRecorded`,
    `ActionResultNotRecorded`, `ActionIdTaken`, and connection errors.
    """
    journal = journal_of(url)
    beginning = _begin(journal, url, request)
    if not beginning.is_audited:
        return None
    if beginning.entry is not None:
        return _require_same(beginning.entry, request)
    try:
        with _ending(journal, url, request) as said:
            said.append(run())
    except RowtideError as error:
        if isinstance(error, ActionResultNotRecorded):
            raise
    return journal.find_entry(url, request.action_id)


@contextmanager
def recording(url: str, request: ActionRequest) -> Iterator[None]:
    """Record what the block does as an action, and how it ends; its errors pass. Raises as `perform`.

    Where there is no audit, the block runs without one: it will find out that rowtide does nothing there.
    """
    journal = journal_of(url)
    if _begin(journal, url, request).is_audited:
        with _ending(journal, url, request):
            yield
    else:
        yield


def _begin(journal: ActionJournal, url: str, request: ActionRequest) -> BegunAction:
    try:
        return journal.begin(url, request)
    except journal.UNWRITABLE as error:
        raise ActionNotRecorded(request.action, error.filled_fact, error.filled_hint) from error


@contextmanager
def _ending(journal: ActionJournal, url: str, request: ActionRequest) -> Iterator[list[str]]:
    """Yield a list for what the action did, in words, and commit the end."""
    said: list[str] = []
    failpoint("action.before")
    try:
        yield said
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
        raise ActionResultNotRecorded(request.action, outcome, request.action_id, str(error)) from error


def _describe(error: BaseException) -> str:
    """Return what an error says without values of rows, which those of others than rowtide may name."""
    return error.without_row if isinstance(error, RowtideError) else type(error).__name__


def _require_same(entry: ActionEntry, request: ActionRequest) -> ActionEntry:
    if (entry.action, entry.subject) != (request.action, request.subject):
        raise ActionIdTaken(entry.action_id, entry.action, entry.subject)
    return entry
