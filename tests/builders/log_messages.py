"""A log of the plainest kind: messages are text, a commit is `C` and the log position behind it."""

from __future__ import annotations


class PlainCommits:
    """Reads `C123` as a commit that ends at 123, anything else as part of a transaction."""

    def is_commit(self, message: bytes) -> bool:
        return bytes(message).startswith(b"C")

    def commit_end(self, message: bytes) -> int:
        return int(bytes(message)[1:])


def messages(text: str) -> list[bytes]:
    """Return messages written one after the other: `B r r C10`."""
    return [word.encode() for word in text.split()]
