"""What an action did, in words: commands print them, pages show them, and the audit has them. None has a row value."""

from __future__ import annotations

PAUSED, RESUMED = "Paused.", "Resumed."


def say_posted(token_id: int) -> str:
    """Say that a tracer token was posted."""
    return f"Token {token_id} is in the log."


def say_compared(equal: int, uncompared: int = 0) -> str:
    """Say of how many tables the rows are equal; one counts at each subscriber."""
    return f"Tables with equal rows: {equal:,}." + (f" Not compared: {uncompared:,}." if uncompared else "")


def say_copied_again(subscriptions: int) -> str:
    """Say how many subscriptions of a publication get their tables again."""
    return f"Subscriptions that are copied again when their agents run: {subscriptions:,}."


def say_reinitialized(uploaded: object | None) -> str:
    """Say that tables of a merge were copied again, and what was uploaded before."""
    return "Reinitialized." if uploaded is None else f"Reinitialized: {uploaded} before."


def say_lost(lost: object) -> str:
    """Say that capture was reinitialized, and what is lost."""
    return f"Reinitialized. Lost: {lost}."


def say_started(job: str) -> str:
    """Say that a job was started."""
    return f"Started: the {job} job."


def say_stopped(job: str) -> str:
    """Say that a job was stopped."""
    return f"Stopped: the {job} job."


def say_resolved(*, is_written: bool, waits: bool) -> str:
    """Say what a decision about a conflict of delivery did."""
    if waits:
        return "Decided: delivery does it when it continues."
    return "Resolved: rows are written." if is_written else "Resolved: they stay as they are."


def say_resolved_merge(*, is_written: bool) -> str:
    """Say what a decision about a conflict of merge did."""
    return "Resolved: the row goes to all nodes." if is_written else "Resolved: it stays as it is."


def say_decided(decided: int, written: int) -> str:
    """Say how many conflicts were decided, and for how many of them rows were written."""
    return f"Conflicts decided: {decided:,}. Rows were written for {written:,}."


def say_commented(conflicts: int) -> str:
    """Say on how many conflicts there is a comment now."""
    return f"Conflicts with this comment: {conflicts:,}."
