"""Values as the text of a PostgreSQL array. Pure.

Every delivered value passes through here, so each step handles a whole column at once, not one value.
"""

from __future__ import annotations

from collections.abc import Sequence

# No value of PostgreSQL has a zero byte: with one begins what stands between values, and what stands for NULL.
_BETWEEN = b"\0,"
_NULL = b"\0n"
_NULL_IN_QUOTES = b'"\0n"'


def array_literal(values: Sequence[bytes | None]) -> bytes:
    """Return a one-dimensional array of at least one value; None is NULL."""
    joined = _BETWEEN.join([_NULL if value is None else value for value in values])
    escaped = joined.replace(b"\\", b"\\\\").replace(b'"', b'\\"')
    quoted = b'{"' + escaped.replace(_BETWEEN, b'","') + b'"}'
    return quoted.replace(_NULL_IN_QUOTES, b"NULL")
