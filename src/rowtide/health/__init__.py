"""One judgement of everything that rowtide does in a database, with what mends it."""

from __future__ import annotations

from rowtide.health.judgements import Area, Judgement, State, exit_code, worst
from rowtide.health.judging import read_health

__all__ = ["Area", "Judgement", "State", "exit_code", "read_health", "worst"]
