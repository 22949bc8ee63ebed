"""Memory that Arrow's threads may read and release."""

from __future__ import annotations

import pyarrow as pa


def owned_by_arrow(data: bytes) -> pa.Buffer:
    """Return a copy of bytes in Arrow's memory, for readers that use threads.

    A thread of Arrow's pools may be the last to release a buffer. For Python's bytes it needs the GIL, and an
    interpreter that is shutting down then aborts the process (https://github.com/apache/arrow/issues/34314).
    """
    sink = pa.BufferOutputStream()
    sink.write(data)
    return sink.getvalue()
