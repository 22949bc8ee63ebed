"""What errors of Spark's JVM say."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject
    from py4j.protocol import Py4JJavaError


def describe(error: Py4JJavaError) -> str:
    """Return the first line of an error's message, and of its root cause if that says more.

    Without Java class names.
    """
    said = _first_line(error.java_exception)
    cause = error.java_exception
    while cause.getCause() is not None:
        cause = cause.getCause()
    reason = _first_line(cause)
    return said if reason in said else f"{said} ({reason})"


def _first_line(exception: JavaObject) -> str:
    return str(exception.getMessage() or exception.toString()).strip().splitlines()[0]
