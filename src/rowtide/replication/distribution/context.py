"""The context of a run of replication: made when it is started, and passed whole."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from sqlalchemy import Engine

from rowtide.replication.distribution.batches import BatchLimits
from rowtide.replication.distribution.skip_errors import NOTHING_SKIPPED, SkipErrors
from rowtide.replication.distribution.watchers import Watchers


@dataclass(frozen=True, slots=True)
class DeliveryContext:
    """One run on one publisher, whose database `engine` leads to; `stop` ends it.

    Each subscription's agent has one of its own, with its own `stop` and watchers.
    """

    url: str
    engine: Engine
    stop: threading.Event = field(default_factory=threading.Event)
    limits: BatchLimits = field(default_factory=BatchLimits)
    watchers: Watchers = field(default_factory=Watchers)
    skips: SkipErrors = NOTHING_SKIPPED
