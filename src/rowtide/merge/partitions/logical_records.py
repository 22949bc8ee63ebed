"""Logical records: rows of several articles that are merged as one unit (SQL Server: logical records). Pure.

A record is a row of its top article with all rows that are linked to it, over any number of links.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rowtide.core.values import frozen
from rowtide.merge.articles import Article
from rowtide.merge.partitions.expressions.tree import ColumnExpression, Expression, OperatorExpression
from rowtide.merge.partitions.filters import parent_name, read_join


@frozen
class Link:
    """A foreign key of article `child` to article `parent`: `pairs` are the places of the columns in both."""

    child: Article
    parent: Article
    pairs: tuple[tuple[int, int], ...]

    @property
    def reference(self) -> int | None:
        """The place of the foreign key among the child's references; None if it is not known as such."""
        columns = {(self.child.columns[place].name, self.parent.columns[other].name) for place, other in self.pairs}
        return next(
            (
                index
                for index, each in enumerate(self.child.references)
                if each.parent == self.parent.nickname
                and set(zip(each.columns, each.parent_columns, strict=True)) == columns
            ),
            None,
        )


@frozen
class RecordType:
    """The articles of one kind of logical record: the top one, and the links, those of parents first."""

    top: Article
    links: tuple[Link, ...]

    @property
    def articles(self) -> tuple[Article, ...]:
        """All articles, parents first."""
        return (self.top, *(link.child for link in self.links))

    @property
    def leaves(self) -> frozenset[int]:
        """The nicknames of the articles that are no parents."""
        parents = {link.parent.nickname for link in self.links}
        return frozenset(article.nickname for article in self.articles if article.nickname not in parents)

    @property
    def detects(self) -> bool:
        """Whether concurrent changes anywhere in a record conflict."""
        return self.top.record_conflict_detection

    @property
    def resolves(self) -> bool:
        """Whether the winner's record replaces the loser's as a whole."""
        return self.top.record_conflict_resolution


def find_record_types(articles: Sequence[Article]) -> tuple[RecordType, ...]:
    """Return the kinds of logical records of a publication, given its articles in processing order."""
    links = [link for article in articles for link in _links(article, articles)]
    linked = {link.child.nickname for link in links}
    tops = [article for article in articles if article.nickname not in linked]
    found = (RecordType(top, tuple(_below(top, links))) for top in tops)
    return tuple(each for each in found if each.links)


def column_pairs(child: Article, parent: Article, condition: str) -> tuple[tuple[str, str], ...] | None:
    """Return the columns of a child and its parent that a condition says are equal; None if it says anything else.

    Raises `FilterRefused`.
    """
    pairs = []
    for term in _terms(read_join(child, parent, condition)):
        match term:
            case OperatorExpression("=", (ColumnExpression(one, first), ColumnExpression(other, second))) if {
                one,
                other,
            } == {
                child.table,
                parent_name(child, parent),
            }:
                pairs.append((first, second) if one == child.table else (second, first))
            case _:
                return None
    return tuple(pairs)


def _links(article: Article, articles: Sequence[Article]) -> Iterator[Link]:
    for join in article.join_filters:
        if join.is_link:
            parent = next(each for each in articles if each.name == join.parent)
            pairs = column_pairs(article, parent, join.condition) or ()
            yield Link(article, parent, tuple((_place(article, one), _place(parent, other)) for one, other in pairs))


def _place(article: Article, name: str) -> int:
    place = article.index_of(name)
    assert place is not None, name
    return place


def _below(top: Article, links: Sequence[Link]) -> Iterator[Link]:
    """Yield the links below an article, those of parents first."""
    for link in links:
        if link.parent.nickname == top.nickname:
            yield link
            yield from _below(link.child, links)


def _terms(expression: Expression) -> Iterator[Expression]:
    match expression:
        case OperatorExpression("and", operands):
            for operand in operands:
                yield from _terms(operand)
        case _:
            yield expression
