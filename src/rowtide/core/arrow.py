"""Memory that Arrow's threads may read and let go."""

from __future__ import annotations

import pyarrow as pa


def owned_by_arrow(data: bytes) -> pa.Buffer:
    """Return a copy of bytes in Arrow's memory, for readers that use threads.

    The last to let a buffer go may be a thread of Arrow's pools. For Python's bytes that thread needs the interpreter's
    lock, and an interpreter that ends then aborts the process (https://github.com/apache/arrow/issues/34314).
    """
    sink = pa.BufferOutputStream()
    sink.write(data)
    return sink.getvalue()
