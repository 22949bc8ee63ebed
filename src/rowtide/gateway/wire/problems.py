"""Problem documents (RFC 9457): an error as an answer, which the other side raises again. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rowtide.core.errors import (
    AlreadyExists,
    DataLoss,
    Denied,
    Invalid,
    NotFound,
    Retryable,
    RowtideError,
    find_classes,
)
from rowtide.core.redaction import without_row
from rowtide.gateway.errors import (
    BodyTooLarge,
    ClaimMissing,
    ClaimsOlder,
    DeviceClaimMissing,
    GatewayFailed,
    GatewayRefused,
    JwtRefused,
    MethodNotThere,
    RangeNotThere,
    SenderTooSlow,
    TooManyRequests,
)
from rowtide.merge.errors.devices import CodeRefused, DeviceRevoked, TokenRefused

CONTENT_TYPE = "application/problem+json"
_TYPE = "https://rowtide.dev/errors/RT-{number}"
_STATUS: tuple[tuple[type[RowtideError], int], ...] = (
    (TokenRefused, 401),
    (JwtRefused, 401),
    (CodeRefused, 401),
    (ClaimMissing, 401),
    (ClaimsOlder, 401),
    (DeviceClaimMissing, 401),
    (DeviceRevoked, 403),
    (MethodNotThere, 405),
    (SenderTooSlow, 408),
    (BodyTooLarge, 413),
    (RangeNotThere, 416),
    (TooManyRequests, 429),
    (GatewayFailed, 500),
    (NotFound, 404),
    (AlreadyExists, 409),
    (DataLoss, 410),
    (Denied, 403),
    (Invalid, 400),
    (Retryable, 503),
)
"""HTTP statuses by kind of error; the first match counts. Other errors are 409, a conflict of states."""
_OTHER = 409


def status_of(error: RowtideError) -> int:
    """Return the HTTP status for an error."""
    return next((status for kind, status in _STATUS if isinstance(error, kind)), _OTHER)


def retry_after_s(error: RowtideError) -> float | None:
    """Return the seconds of Retry-After, if the error has any."""
    found = getattr(error, "after_s", None)
    return float(found) if isinstance(found, int | float) else None


def describe(error: RowtideError) -> dict[str, Any]:
    """Return the problem document of an error, without keys and values of rows."""
    shown = {
        name: without_row(error.row_fields[name], str(value)) if name in error.row_fields else value
        for name in error.field_names
        if (value := getattr(error, name)) is None or isinstance(value, str | int | float)
    }
    said = type(error)(**{name: shown.get(name) for name in error.field_names})
    return {
        "type": _TYPE.format(number=error.number),
        "title": type(error).__name__,
        "status": status_of(error),
        "code": f"RT-{error.number}",
        "fact": said.filled_fact,
        "hint": said.filled_hint,
        "fields": shown,
    }


def read_problem(document: Mapping[str, Any]) -> RowtideError | None:
    """Return the error of a problem document; None if it is none of rowtide's."""
    code, fact, hint, given = (document.get(name) for name in ("code", "fact", "hint", "fields"))
    if not isinstance(code, str) or not isinstance(fact, str) or not isinstance(hint, str):
        return None
    number = code.removeprefix("RT-")
    if not number.isascii() or not number.isdigit():
        return None
    # The other side is not trusted: only our own error classes are made, from plain values.
    kind = next(iter(find_classes(int(number))), None) if number.isdigit() else None
    fields = given if isinstance(given, dict) else {}
    is_plain = all(value is None or isinstance(value, str | int | float) for value in fields.values())
    if kind is not None and is_plain and fields.keys() == set(kind.field_names):
        return kind(**fields)
    return GatewayRefused(code, f"{fact}. {hint}")
