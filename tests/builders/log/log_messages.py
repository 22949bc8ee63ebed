"""A log of the plainest kind: messages are text, a commit is `C` and the log position behind it."""

from __future__ import annotations

from rowtide.log.batches import Messages


class PlainCommits:
    """Reads `C123` as a commit that ends at 123, anything else as part of a transaction."""

    def is_commit(self, message: bytes) -> bool:
        return message.startswith(b"C")

    def find_commits(self, messages: Messages) -> tuple[int, int] | None:
        found = [place for place, message in enumerate(messages) if self.is_commit(message)]
        return (found[0], found[-1]) if found else None

    def commit_end(self, message: bytes) -> int:
        return int(message[1:])


def messages(text: str) -> Messages:
    """Return messages written one after the other: `B r r C10`."""
    return Messages.of(word.encode() for word in text.split())
