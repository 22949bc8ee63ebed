"""`check` and `health` of the database that a URL names."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from rowtide.core.errors import RowtideError
from rowtide.core.names import require_text
from rowtide.databases.urls import parse_url
from rowtide.diagnosis.codes import ALL_AREAS, Area, Code
from rowtide.diagnosis.errors import LakeNotChecked, Stopped
from rowtide.diagnosis.result import Checked, CheckResult, State, address, by_state, of_error
from rowtide.rights.purpose import Purpose, parse_purpose
from rowtide.storage.places import require_place

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    _Read = Callable[[str, Collection[Area]], tuple[CheckResult, ...]]
    _Check = Callable[[str, Sequence[str], str | None, Purpose | None], Checked]


def read_health(url: str, areas: Collection[Area] = ALL_AREAS) -> tuple[CheckResult, ...]:
    """Return how everything that rowtide does in a database works, the worst first; nothing in it is changed.

    Only what concerns some areas, or the whole database, is read and returned where they are given.
    A database that cannot be reached is a result, too: it fails. Needs no Spark. Raises `UrlNotRead`,
    `DatabaseKindUnknown`, `ExtraMissing`.
    """
    kind = parse_url(url).kind
    read: _Read = kind.load_part("rowtide.diagnosis", "views").read_health
    try:
        return by_state(result for result in read(url, areas) if result.area in {*areas, Area.DATABASE})
    except RowtideError as error:
        return (of_error(Code.DATABASE_UNREACHABLE, State.FAILING, "database", error),)


_WORK = frozenset({Area.LOG, Area.CAPTURE, Area.REPLICATION, Area.MERGE})
"""The areas of agents' work; the rest of health is covered by the checks themselves."""
_WORK_FOR: Mapping[Purpose | None, frozenset[Area]] = {
    None: _WORK,
    Purpose.MONITOR: _WORK,
    Purpose.READER: frozenset({Area.CAPTURE}),
    Purpose.PUBLISHER: frozenset({Area.LOG, Area.CAPTURE, Area.REPLICATION}),
    Purpose.SUBSCRIBER: frozenset({Area.REPLICATION}),
    Purpose.MERGE: frozenset({Area.MERGE}),
    Purpose.GATEWAY: frozenset({Area.MERGE}),
    Purpose.TRACKER: frozenset({Area.TRACKING}),
}


def check_database(
    url: str, tables: Sequence[str] | str = (), lake: str | None = None, purpose: Purpose | str | None = None
) -> tuple[CheckResult, ...]:
    """Return what is missing or worth knowing in a database, the worst first; nothing in it is changed.

    Without `tables`: the captured and the tracked ones, before enabling all of the user's. Judged is what the role of
    the connection needs for a purpose; without one, to enable and to run what there is. Raises `UrlNotRead`,
    `DatabaseKindUnknown`, `ExtraMissing`, and what the check of such a database raises: `TableNotFound`,
    `TableToTrackNotFound`, `NothingForLake`, `LakeNotChecked`, `NotAPublisher`, `PurposeUnknown`, `PlaceUnnamed`,
    `NameUnfit`, and what connecting raises.
    """
    parsed = parse_url(url)
    known = parse_purpose(purpose) if purpose is not None else None
    if lake is not None:
        require_place(lake)
        if known not in (None, Purpose.PUBLISHER):
            raise LakeNotChecked(str(known), lake)
    check: _Check = parsed.kind.load_part("rowtide.diagnosis", "views").check
    named = _named(tables)
    checked = check(url, named, lake, known)
    found = (*checked.results, *choose_work(checked, known))
    return by_state(address(result, checked.others) for result in found)


def _named(tables: Sequence[str] | str) -> Sequence[str]:
    named = (tables,) if isinstance(tables, str) else tuple(tables or ())
    for name in named:
        require_text("table", name)
    return named


def choose_work(checked: Checked, purpose: Purpose | None) -> Iterator[CheckResult]:
    """Return what of the work of what was enabled is not healthy, and not found yet."""
    subjects = {result.subject for result in checked.results}
    found = {(result.subject, result.code) for result in checked.results}
    for result in checked.work:
        is_unknown = result.state is State.UNKNOWN
        is_said = (result.subject, result.code) in found or (is_unknown and result.subject in subjects)
        is_failing = result.state is State.FAILING and (purpose is None or result.area is Area.DATABASE)
        # What a reader may not see is no concern of its.
        is_beyond = purpose is Purpose.READER and is_unknown
        is_meant = (result.area in _WORK_FOR[purpose] or is_failing) and not is_beyond
        if is_meant and not is_said and result.state is not State.HEALTHY:
            yield result


def require_nothing_stops(results: Sequence[CheckResult]) -> None:
    """Raise `Stopped` if anything fails."""
    subjects = [result.subject for result in results if result.state is State.FAILING]
    if subjects:
        raise Stopped(", ".join(dict.fromkeys(subjects)))
