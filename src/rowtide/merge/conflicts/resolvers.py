"""Conflict resolvers, as named by `--resolver` (SQL Server: sp_enumcustomresolvers). Pure."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, InvalidOperation

from rowtide.merge.articles import ADDITIVE, Article
from rowtide.merge.conflicts.resolution import Contest, Custom, Resolver, Verdict, Winner
from rowtide.merge.errors import ResolverUnknown
from rowtide.merge.versions.bases import add_up
from rowtide.merge.versions.lineage import Change

PUBLISHER_PRIORITY = 100.0
PYTHON = "python"
"""What is written before the name of a handler's class."""


def by_priority(contest: Contest) -> Winner:
    """The higher priority wins; between equal priorities, the change of the node with the lower nickname."""
    known = PUBLISHER_PRIORITY if contest.known.priority is None else contest.known.priority
    if contest.priority != known:
        return Winner.SUBSCRIBER if contest.priority > known else Winner.PUBLISHER
    sent, last = Change.decode(contest.sent.last), contest.known.version.last
    assert last is not None
    return Winner.SUBSCRIBER if sent.nickname < last.nickname else Winner.PUBLISHER


def find_resolver(article: Article) -> Resolver:
    """Return the resolver that an article names. Raises `ResolverUnknown`."""
    name, _, argument = article.resolver.partition(":")
    if name in _PLAIN and not argument:
        return _PLAIN[name]
    if name in _BY_COLUMN and article.place_of(argument) is not None:
        return _BY_COLUMN[name](article.place_of(argument) or 0)
    known = [*_PLAIN, *(f"{name}:COLUMN" for name in _BY_COLUMN), f"{PYTHON}:module.Class"]
    raise ResolverUnknown(article.resolver, article.name, ", ".join(known))


def _later_wins(place: int) -> Resolver:
    def decide_by_value(contest: Contest) -> Winner:
        rows = contest.subscriber_row, contest.publisher_row
        if rows[0] is None or rows[1] is None:
            return by_priority(contest)
        sent, known = (_ordered(row[place]) for row in rows if row is not None)
        if sent == known:
            return by_priority(contest)
        return Winner.SUBSCRIBER if sent > known else Winner.PUBLISHER

    return decide_by_value


def _adds_up(place: int) -> Resolver:
    def add(contest: Contest) -> Verdict:
        winner = by_priority(contest)
        sent, known, bases = contest.subscriber_row, contest.publisher_row, contest.sent.bases
        if sent is None or known is None or bases is None:
            return winner
        sender = Change.decode(contest.sent.last).nickname
        total = add_up(bases, contest.known.version.lineage, sender, sent[place], known[place])
        if total is None:
            return winner
        row = list(sent if winner is Winner.SUBSCRIBER else known)
        row[place] = total
        return Custom(winner, tuple(row))

    return add


def _ordered(text: str | None) -> tuple[int, Decimal, str]:
    """Return the sort key of a value: numbers as numbers, others as text, which also orders ISO times.

    NULL sorts lowest; what is not a number sorts after all numbers, NaN first, as in PostgreSQL.
    """
    if text is None:
        return (0, Decimal(0), "")
    try:
        number = Decimal(text)
    except InvalidOperation:
        return (3, Decimal(0), text)
    return (2, Decimal(0), "") if number.is_nan() else (1, number, "")


def _publisher_wins(_contest: Contest) -> Winner:
    return Winner.PUBLISHER


def _subscriber_wins(_contest: Contest) -> Winner:
    return Winner.SUBSCRIBER


_PLAIN: dict[str, Resolver] = {
    "priority": by_priority,
    "publisher-wins": _publisher_wins,
    "subscriber-wins": _subscriber_wins,
}
_BY_COLUMN: dict[str, Callable[[int], Resolver]] = {"later-wins": _later_wins, ADDITIVE: _adds_up}
