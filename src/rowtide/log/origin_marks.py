"""Marks of the transactions that rowtide's delivery commits at a subscriber, in that database's own log.

The first thing in such a transaction is a logical message. Any role can write one, so it carries the subscription's
secret, which only the subscriber's database has; a message without the secret marks nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from rowtide.core.json_records import JsonInvalid, JsonOf
from rowtide.core.values import frozen

MESSAGE_PREFIX = "rowtide.origin"
"""The prefix of the logical message; its content is that of a `OriginMark`, as JSON."""
_ORIGIN_PREFIX = f"{MESSAGE_PREFIX}/"


class SecretWanted(Exception):
    """A subscription's mark was read: the caller decodes again with its secret, or with None if there is no such
    subscription.
    """

    def __init__(self, subscription: str) -> None:
        super().__init__(subscription)
        self.subscription = subscription


@frozen
class OriginMark:
    """The content of a mark: the subscription's guid, the publisher's database, and the subscription's secret."""

    subscription: str
    originator: str
    secret: str


Secrets = Mapping[str, str | None]
"""The secrets of subscriptions by guid; None for one that the database does not have."""

_MARK = JsonOf[OriginMark](OriginMark)


def decode_mark(content: bytes) -> OriginMark | None:
    """Read a message's content; None if it is not a mark."""
    try:
        return _MARK.decode(content)
    except JsonInvalid:
        return None


def verify_mark(content: bytes, secrets: Secrets) -> str | None:
    """Return the origin of a transaction's changes in log records; None if its mark is not verified.

    Raises `SecretWanted`.
    """
    mark = decode_mark(content)
    if mark is None:
        return None
    if mark.subscription not in secrets:
        raise SecretWanted(mark.subscription)
    return _ORIGIN_PREFIX + mark.subscription if mark.secret == secrets[mark.subscription] else None


def is_marked(origin: str | None) -> bool:
    """Return whether the origin of a log record is that of a marked transaction."""
    return origin is not None and origin.startswith(_ORIGIN_PREFIX)
