"""Rows that come with the key of a row which is deleted with them: they are other rows, and inherit nothing.

A foreign key that is checked at the end accepts whatever row has the key then, and the deleted row's children at the
hub, which may be other subscribers', would be the new row's. So the two are not written together while the deleted row
has children that do not come with it: its delete is refused, as it would be alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from rowtide.merge.articles import Article
from rowtide.merge.errors.rows import FOREIGN_KEY_CODES, RowsRefused
from rowtide.merge.nodes.node import Node
from rowtide.merge.nodes.rows import Refusal
from rowtide.merge.session.receiver import Part
from rowtide.merge.versions.changes import Row, reference_indexes


def defer_bequests(
    node: Node, parts: Sequence[Part], articles: Mapping[int, Article]
) -> dict[tuple[int, str], Refusal]:
    """Return the refusals of deletes by which a received row would get the deleted row's children.

    They are by the article's nickname and the rowguid.
    """
    if not any(article.references for article in articles.values()):
        return {}
    coming = {(article.nickname, change.rowguid) for article, changes in parts for change in changes}
    return {
        (part[0].nickname, rowguid): refusal
        for part in parts
        for rowguid, refusal in _defer(node, part, coming, articles).items()
    }


def _defer(node: Node, part: Part, coming: Set[tuple[int, str]], articles: Mapping[int, Article]) -> dict[str, Refusal]:
    article, changes = part
    gone = [change.rowguid for change in changes if change.row is None]
    written = [change.row for change in changes if change.row is not None]
    references = [
        (child, reference)
        for child in articles.values()
        for reference in child.references
        if reference.parent == article.nickname
    ]
    if not (references and gone and written):
        return {}
    held: dict[str, Refusal] = {}
    deleted = node.rows.read(article, gone)
    names = [column.name for column in article.columns]
    for child, reference in references:
        places = [names.index(name) for name in reference.parent_columns]
        taken = {_values(row, places) for row in written}
        inherited = {rowguid: _values(row, places) for rowguid, row in deleted.items()}
        keys = sorted(taken.intersection(inherited.values()), key=repr)
        if not keys:
            continue
        in_child = reference_indexes(child, reference)
        children = node.rows.read_referencing(child, reference.columns, keys)
        left = {_values(row, in_child) for rowguid, row in children.items() if (child.nickname, rowguid) not in coming}
        reason = f"rows of {child.name} reference the row, and another one would get its key"
        error = RowsRefused(article.name, FOREIGN_KEY_CODES[0], reason)
        held |= {rowguid: Refusal(error, None) for rowguid, key in inherited.items() if key in left}
    return held


def _values(row: Row, places: Sequence[int]) -> Row:
    return tuple(row[place] for place in places)
