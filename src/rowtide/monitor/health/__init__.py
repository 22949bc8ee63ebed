"""One judgement of everything that rowtide does in a database, with what mends it."""

from __future__ import annotations

from rowtide.monitor.health.health import read_health
from rowtide.monitor.health.judgements import Area, Judgement, State, exit_code, worst

__all__ = ["Area", "Judgement", "State", "exit_code", "read_health", "worst"]
