"""The health of the database that a URL names."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from sqlalchemy.engine import make_url

from rowtide.core.errors import ExtraMissing, RowtideError
from rowtide.monitor.findings import Advice
from rowtide.monitor.health.judgements import Area, Judgement, State, by_state
from rowtide.tracking.errors import UnknownDatabase

if TYPE_CHECKING:
    from collections.abc import Callable

_READERS = {
    "sqlite": "rowtide.monitor.health.sqlite.health",
    "postgresql": "rowtide.monitor.health.postgres.health",
}


def read_health(url: str) -> tuple[Judgement, ...]:
    """Judge everything that rowtide does in a database, the worst first; nothing in it is changed.

    A database that cannot be reached is a judgement, too: it fails. Needs no Spark. Raises `UnknownDatabase`,
    `ExtraMissing`.
    """
    kind = make_url(url).get_backend_name()
    if kind not in _READERS:
        raise UnknownDatabase(kind)
    try:
        read: Callable[[str], tuple[Judgement, ...]] = import_module(_READERS[kind]).read_judgements
    except ModuleNotFoundError as error:
        raise ExtraMissing(error.name or "", "postgres") from error
    try:
        return by_state(read(url))
    except RowtideError as error:
        failed = Judgement(Area.DATABASE, "database", State.FAILING, error.filled_fact, Advice(error.filled_hint))
        return (failed,)
