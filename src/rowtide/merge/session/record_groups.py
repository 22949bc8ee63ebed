"""Received changes grouped by logical record: the foreign keys of both ends say which rows a record has.

A row that was deleted at the sender belongs to the record that it is in at the receiver; one that moved belongs to
both, which then are one unit. The cost is in proportion to the changes and their ancestors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation

from rowtide.databases.sqlite.values import is_numeric
from rowtide.merge.articles import Article
from rowtide.merge.nodes.node import Node
from rowtide.merge.partitions.logical_records import Link, RecordType
from rowtide.merge.versions.changes import Row, RowChange

Key = tuple[str, ...]
"""The values of a foreign key."""
_Member = str | tuple[int, Key]
"""A row, by rowguid, or a parent that is known by its key only."""


@dataclass(slots=True)
class LogicalRecord:
    """Changes that are written together or not at all, by the article's nickname.

    `tops` are the rowguids of the top rows, at either end.
    """

    kind: RecordType
    changes: dict[int, list[RowChange]] = field(default_factory=dict)
    tops: set[str] = field(default_factory=set)

    @property
    def rows(self) -> Iterator[tuple[Article, RowChange]]:
        """The changes, each with its article."""
        for article in self.kind.articles:
            for change in self.changes.get(article.nickname, ()):
                yield article, change

    def __len__(self) -> int:
        return sum(map(len, self.changes.values()))


def group(node: Node, kind: RecordType, changes: Mapping[int, Sequence[RowChange]]) -> list[LogicalRecord]:
    """Return received changes of a kind's articles, by record; not within a transaction of the receiver."""
    joined, above = _Groups(), {article.nickname: set[str]() for article in kind.articles}
    for link in reversed(kind.links):
        sent, parents = changes.get(link.child.nickname, ()), above[link.parent.nickname]
        rowguids = {change.rowguid for change in sent} | above[link.child.nickname]
        if rowguids:
            there = node.rows.read_parents(link, list(rowguids))
            parents.update(there.values())
            joined.join_all(there.items())
        parents.update(_join_sent(node, link, sent, changes.get(link.parent.nickname, ()), joined))
    records: dict[_Member, LogicalRecord] = {}
    for article in kind.articles:
        for change in changes.get(article.nickname, ()):
            record = records.setdefault(joined.of(change.rowguid), LogicalRecord(kind))
            record.changes.setdefault(article.nickname, []).append(change)
    for rowguid in above[kind.top.nickname] | {each.rowguid for each in changes.get(kind.top.nickname, ())}:
        if joined.of(rowguid) in records:
            records[joined.of(rowguid)].tops.add(rowguid)
    return list(records.values())


def find_tops(node: Node, kind: RecordType, nickname: int, rowguids: Iterable[str]) -> dict[str, str]:
    """Return the top rows of the records that rows of an article are in at a node; others are omitted."""
    links = {link.child.nickname: link for link in kind.links}
    found = {rowguid: rowguid for rowguid in rowguids}
    while nickname != kind.top.nickname and found:
        link = links[nickname]
        parents = node.rows.read_parents(link, list(set(found.values())))
        found = {rowguid: parents[row] for rowguid, row in found.items() if row in parents}
        nickname = link.parent.nickname
    return found


def find_members(node: Node, kind: RecordType, tops: Iterable[str]) -> dict[int, dict[str, str]]:
    """Return the rows of records at a node, each with its top row, by the article's nickname."""
    return find_below(node, kind, {kind.top.nickname: {top: top for top in tops}})


def find_below(node: Node, kind: RecordType, rows: Mapping[int, Mapping[str, str]]) -> dict[int, dict[str, str]]:
    """Return rows and all that are below them at a node, by the article's nickname, each with what its parent has."""
    found = {article.nickname: dict(rows.get(article.nickname, {})) for article in kind.articles}
    for link in kind.links:
        parents = found[link.parent.nickname]
        children = node.rows.read_children(link, list(parents)) if parents else {}
        for child, parent in children.items():
            found[link.child.nickname].setdefault(child, parents[parent])
    return found


def is_child_of(link: Link, child: RowChange, parent: RowChange) -> bool:
    """Whether a row references another by a link, as both were sent."""
    if child.row is None or parent.row is None:
        return False
    key = _key(link, child.row, 0)
    return key is not None and key == _key(link, parent.row, 1)


def _join_sent(
    node: Node, link: Link, sent: Sequence[RowChange], above: Sequence[RowChange], joined: _Groups
) -> set[str]:
    """Join rows with the parents that they have at the sender; return those that were not sent themselves."""
    keys = {_key(link, change.row, 1): change.rowguid for change in above if change.row is not None}
    place, named = link.reference, set[str]()
    elsewhere: list[tuple[str, Key, Row]] = []
    for change in sent:
        own = change.parents[place] if place is not None and place < len(change.parents) else None
        if own is not None:
            # As the sender names it: at the receiver its key may be another's.
            joined.join(change.rowguid, own)
            named.add(own)
            continue
        key = None if change.row is None else _key(link, change.row, 0)
        if key is None or change.row is None:
            continue
        if key in keys:
            joined.join(change.rowguid, keys[key])
        else:
            elsewhere.append((change.rowguid, key, change.row))
    parents = node.rows.find_parents(link, [row for _, _, row in elsewhere]) if elsewhere else ()
    for (rowguid, key, _), parent in zip(elsewhere, parents, strict=True):
        joined.join(rowguid, (link.parent.nickname, key) if parent is None else parent)
    return named | {parent for parent in parents if parent is not None}


def _key(link: Link, row: Row, side: int) -> Key | None:
    """Return the values of a link's columns in a row of the child, side 0, or the parent, 1; None if any is null."""
    key = []
    for pair in link.pairs:
        text = row[pair[side]]
        if text is None:
            return None
        is_number = is_numeric(link.parent.columns[pair[1]].type_text)
        key.append(_plain_number(text) if is_number else text)
    return tuple(key)


def _plain_number(text: str) -> str:
    try:
        return str(Decimal(text).normalize())
    except InvalidOperation:
        return text


class _Groups:
    """Disjoint sets of rows."""

    def __init__(self) -> None:
        self._above: dict[_Member, _Member] = {}

    def of(self, member: _Member) -> _Member:
        """Return the representative of a member's set."""
        path = []
        while (above := self._above.get(member, member)) != member:
            path.append(member)
            member = above
        for each in path:
            self._above[each] = member
        return member

    def join(self, one: _Member, other: _Member) -> None:
        self._above[self.of(one)] = self.of(other)

    def join_all(self, pairs: Iterable[tuple[_Member, _Member]]) -> None:
        for one, other in pairs:
            self.join(one, other)
