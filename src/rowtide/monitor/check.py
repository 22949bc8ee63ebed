"""The check of the database that a URL names."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from sqlalchemy.engine import make_url

from rowtide.core.errors import ExtraMissing
from rowtide.monitor.errors import Stopped
from rowtide.monitor.findings import Finding, Severity
from rowtide.tracking.errors import UnknownDatabase

if TYPE_CHECKING:
    from collections.abc import Callable

_CHECKS = {"sqlite": "rowtide.monitor.sqlite.check", "postgresql": "rowtide.monitor.postgres.check"}


def check_database(url: str, tables: Sequence[str] = (), lake: str | None = None) -> tuple[Finding, ...]:
    """Return what is missing or worth knowing in a database, the worst first; nothing in it is changed.

    Without `tables`: the captured and the tracked ones, before enabling all of the user's. Raises `UnknownDatabase`,
    `ExtraMissing`, and what the check of such a database raises: `TableNotFound`, `TableToTrackNotFound`,
    `NothingForLake`, and what connecting raises.
    """
    kind = make_url(url).get_backend_name()
    if kind not in _CHECKS:
        raise UnknownDatabase(kind)
    try:
        check: Callable[[str, Sequence[str], str | None], tuple[Finding, ...]] = import_module(_CHECKS[kind]).check
    except ModuleNotFoundError as error:
        raise ExtraMissing(error.name or "", "postgres") from error
    return check(url, tables, lake)


def require_nothing_stops(findings: Sequence[Finding]) -> None:
    """Raise `Stopped` if any finding stops capture or tracking."""
    subjects = [finding.subject for finding in findings if finding.severity is Severity.STOPS]
    if subjects:
        raise Stopped(", ".join(dict.fromkeys(subjects)))
