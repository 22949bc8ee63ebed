"""A hub, two nodes and one row: everything that can happen in a few steps, against causal histories.

The nodes keep what triggers and the agent write; what they tell of it, how it is compared and what is decided is the
product's own. The reference knows of each version which changes it has seen, as a set, and nothing of generations. What
it says of two versions is what their lineages have to say; in the end all nodes have the same row, two more rounds move
nothing, and each change is in the row, was overwritten by somebody who knew of it, or is in a conflict's record. Where
a resolver makes a value of two, a change counts as in the row if the row's version has seen it. Upload-only articles
are omitted: their nodes are not meant to have the same rows.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from builders.merge.small_models import (
    LOST_UPLOAD,
    REINITIALIZE,
    SYNCHRONISE,
    Model,
    require_rest_after,
    require_rest_everywhere,
)
from builders.merge.small_oracles import MADE
from builders.merge.small_uploads import Uploading
from builders.merge.small_worlds import DELETE, HUB, INSERT, ONE, TWO
from rowtide.merge.articles import Article, ArticleColumn
from rowtide.merge.versions.changes import Row


def article(resolver: str, *, tracks_columns: bool) -> Article:
    type_text = "text" if resolver.startswith("merge-text") else "bigint"
    columns = tuple(ArticleColumn(name, type_text, is_nullable=True, key_ordinal=None) for name in "ab")
    return Article("t", "", "t", 1, columns, column_tracking=tracks_columns, resolver=resolver)


LESS_OFTEN = (
    "publisher-wins",
    "download-only",
    "later-wins:a",
    "earlier-wins:a",
    "maximum:a",
    "minimum:a",
    "priority-column:a",
    "additive:a",
    "averaging:a",
    "merge-text:a:;",
)
RESOLVERS = pytest.mark.parametrize(
    "resolver",
    ["subscriber-wins", "priority", *(pytest.param(name, marks=pytest.mark.exhaustive) for name in LESS_OFTEN)],
)
SOAK = [pytest.mark.soak, pytest.mark.timeout(3600)]


@pytest.mark.parametrize("depth", [4, pytest.param(6, marks=SOAK)])
@pytest.mark.parametrize("tracks_columns", [False, True])
@RESOLVERS
def test_rows_come_to_rest_and_nothing_is_lost_without_a_record(
    resolver: str,
    tracks_columns: bool,  # noqa: FBT001 - given by parametrize
    depth: int,
) -> None:
    require_rest_everywhere(Model(article(resolver, tracks_columns=tracks_columns)), depth)


@pytest.mark.parametrize(
    ("resolver", "depth"),
    [("priority", 4), *(pytest.param(name, 7, marks=SOAK) for name in ("publisher-wins", "subscriber-wins"))],
)
def test_metadata_may_be_purged_as_soon_as_they_are_settled(resolver: str, depth: int) -> None:
    model = Model(article(resolver, tracks_columns=False), purges=True, whole=True)
    require_rest_everywhere(model, depth)


@pytest.mark.parametrize(("resolver", "depth"), [("priority", 4), pytest.param("publisher-wins", 6, marks=SOAK)])
def test_metadata_may_be_purged_with_column_tracking_too(resolver: str, depth: int) -> None:
    model = Model(article(resolver, tracks_columns=True), purges=True)
    require_rest_everywhere(model, depth)


@pytest.mark.parametrize(("resolver", "depth"), [("priority", 4), pytest.param("publisher-wins", 6, marks=SOAK)])
def test_a_subscriber_may_be_reinitialised_at_any_time(resolver: str, depth: int) -> None:
    model = Model(article(resolver, tracks_columns=False), purges=True, whole=True, reinitializes=True)
    require_rest_everywhere(model, depth)


ANSWERS: dict[str, Callable[[Row, Row], Row | None]] = {
    "of both": lambda sent, known: (sent[0], known[1]),
    "its own": lambda _, known: (str(MADE), known[1]),
    "the subscriber's": lambda sent, _: sent,
    "none for some": lambda sent, known: known if sent[0] == known[0] else None,
}


@pytest.mark.parametrize("depth", [4, pytest.param(6, marks=SOAK)])
@pytest.mark.parametrize(
    "answer", ["of both", *(pytest.param(name, marks=pytest.mark.exhaustive) for name in list(ANSWERS)[1:])]
)
@pytest.mark.parametrize(
    "tracks_columns", [True, pytest.param(False, marks=pytest.mark.exhaustive)], ids=["columns", "rows"]
)
def test_a_procedure_may_answer_with_any_row(answer: str, depth: int, *, tracks_columns: bool) -> None:
    published = article("procedure:public.decide", tracks_columns=tracks_columns)
    require_rest_everywhere(Model(published, answer=ANSWERS[answer]), depth)


@pytest.mark.parametrize("depth", [4, pytest.param(6, marks=SOAK)])
@pytest.mark.parametrize("tracks_columns", [False, True], ids=["rows", "columns"])
def test_uploaded_rows_are_lost_to_none_but_later_ones(depth: int, *, tracks_columns: bool) -> None:
    require_rest_everywhere(Uploading(article("upload-only", tracks_columns=tracks_columns)), depth)


PURGED_AT_ONE = [(ONE, SYNCHRONISE), (ONE, SYNCHRONISE)]
CHANGED_AT_TWO = [(TWO, "update a"), (TWO, SYNCHRONISE)]


def test_update_that_beats_a_delete_keeps_changes_before_a_purge() -> None:
    model = Model(article("subscriber-wins", tracks_columns=True), purges=True)
    won = [(ONE, "update b"), (HUB, DELETE), (ONE, SYNCHRONISE)]

    require_rest_after(model, [(ONE, "update a"), *PURGED_AT_ONE, *won, *CHANGED_AT_TWO])


def test_reinserted_row_is_new_in_all_columns_after_a_purge() -> None:
    model = Model(article("priority", tracks_columns=True), purges=True)

    require_rest_after(model, [(ONE, DELETE), *PURGED_AT_ONE, (ONE, INSERT), (ONE, SYNCHRONISE), *CHANGED_AT_TWO])


def test_a_reinitialised_one_undoes_nothing_known_of_columns() -> None:
    model = Model(article("priority", tracks_columns=True))
    begun = [(ONE, REINITIALIZE), (ONE, "update b"), (ONE, SYNCHRONISE)]

    require_rest_after(model, [(HUB, "update a"), *begun, *CHANGED_AT_TWO])


def test_an_upload_that_is_repeated_overrides_nothing_later() -> None:
    model = Uploading(article("upload-only", tracks_columns=False))
    repeated = [(TWO, "update a"), (TWO, LOST_UPLOAD)]

    require_rest_after(model, [*repeated, *[(ONE, "update a"), (ONE, SYNCHRONISE)] * 2])
