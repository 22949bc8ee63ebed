"""Named consumers as the source database has them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from rowtide.cdc.consumers.consumers import ConsumedInstance, Consumer
from rowtide.core.lsn import CommitLsn

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def consumer(*names: str, acknowledged: int | None = None, **changes: Any) -> Consumer:
    """Return a consumer of instances whose member ids are `m-` and their names, made at noon, with a week's limit."""
    usual = Consumer(
        name="warehouse",
        instances=tuple(ConsumedInstance(name, f"m-{name}") for name in names),
        limit=timedelta(hours=168),
        role_name=None,
        acknowledged_lsn=CommitLsn(acknowledged) if acknowledged is not None else None,
        acknowledged_time=None,
        acknowledged_at=None,
        created_at=NOON,
        instance_names=names,
    )
    return replace(usual, **changes)
