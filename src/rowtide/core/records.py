"""The log record: the single representation of a change, from the decoder to the last reader."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

_FIELDS: list[pa.Field[Any]] = [
    pa.field("commit_lsn", pa.int64(), nullable=False),
    pa.field("commit_time", pa.timestamp("us", tz="UTC"), nullable=False),
    pa.field("xid", pa.int64(), nullable=False),
    pa.field("origin", pa.string()),
    pa.field("seqval", pa.int64(), nullable=False),
    pa.field("operation", pa.int8(), nullable=False),
    pa.field("table_id", pa.int32(), nullable=False),
    pa.field("image", pa.int8(), nullable=False),
    pa.field("before", pa.list_(pa.string())),
    pa.field("after", pa.list_(pa.string())),
    pa.field("absent", pa.binary()),
    pa.field("payload", pa.string()),
]
RECORD = pa.schema(_FIELDS)
"""The schema. A row image has one string per column of the table version, null for NULL.

`origin` is that of a transaction which replication applied: the name of the session's replication origin, or a verified
mark of rowtide's delivery (`rowtide.log.membership`). `absent` is a bitmap over `after` (bit i of byte i div 8,
least significant first) of values that the log did not carry; null = all carried.
"""
