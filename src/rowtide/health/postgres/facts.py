"""What is known of a PostgreSQL database before its health is judged."""

from __future__ import annotations

from dataclasses import dataclass

from rowtide.findings.place_facts import Place
from rowtide.findings.postgres.facts import CaptureFacts, ServerFacts, TableFacts, TrackingFacts
from rowtide.health.facts import (
    CapturingFacts,
    CleanupFacts,
    DeliveryFacts,
    MergeFacts,
    ReadingFacts,
    Unread,
)


@dataclass(frozen=True, slots=True)
class ArticleFacts:
    """Published tables: of `unread` ones the log reader has not met the beginning, `dropped` ones are gone.

    `stored` are columns that were generated when the table was published, and are ordinary ones now.
    """

    unread: tuple[str, ...]
    dropped: tuple[str, ...]
    stored: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LogFacts:
    """What is read through the log; `cleanup` and `capturing` are None where only publications read it.

    `tables` are the captured ones.
    """

    capture: CaptureFacts
    reading: ReadingFacts | Unread
    tables: tuple[TableFacts, ...]
    capturing: CapturingFacts | Unread | None
    cleanup: CleanupFacts | Unread | None
    delivery: DeliveryFacts | Unread | None
    articles: ArticleFacts | Unread
    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class DatabaseHealthFacts:
    """Everything that is judged; `log` is None where the log is read for nothing.

    `delivered_here` are publications of other databases whose changes are delivered into this one.
    """

    server: ServerFacts
    log: LogFacts | Unread | None
    merge: MergeFacts | Unread | None
    tracking: TrackingFacts | Unread
    delivered_here: tuple[str, ...] | Unread
