"""The context of a run of replication: made when it is started, and passed whole."""

from __future__ import annotations

import threading
from dataclasses import field

from sqlalchemy import Engine

from rowtide.core.values import frozen
from rowtide.replication.distribution.watchers import Watchers
from rowtide.replication.subscription_settings import SettingsChanges


@frozen
class DeliveryContext:
    """One run on one publisher, whose database `engine` leads to; `stop` ends it.

    Each subscription's agent has one of its own, with its own `stop` and watchers. `settings` replace those of the
    subscriptions.
    """

    url: str
    engine: Engine
    stop: threading.Event = field(default_factory=threading.Event)
    watchers: Watchers = field(default_factory=Watchers)
    settings: SettingsChanges = field(default_factory=SettingsChanges)
