"""The health of the database that a URL names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowtide.core.errors import RowtideError
from rowtide.databases.urls import parse_url
from rowtide.findings.finding import Advice
from rowtide.health.judgements import Area, Judgement, State, by_state

if TYPE_CHECKING:
    from collections.abc import Callable


def read_health(url: str) -> tuple[Judgement, ...]:
    """Judge everything that rowtide does in a database, the worst first; nothing in it is changed.

    A database that cannot be reached is a judgement, too: it fails. Needs no Spark. Raises `UrlNotRead`,
    `DatabaseKindUnknown`, `ExtraMissing`.
    """
    kind = parse_url(url).kind
    read: Callable[[str], tuple[Judgement, ...]] = kind.load_part("rowtide.health", "judging").read_judgements
    try:
        return by_state(read(url))
    except RowtideError as error:
        failed = Judgement(Area.DATABASE, "database", State.FAILING, error.filled_fact, Advice(error.filled_hint))
        return (failed,)
