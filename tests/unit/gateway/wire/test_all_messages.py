"""Every message of the wire comes back as it was, whatever its fields are."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_origin

import pytest
from hypothesis import given, settings, strategies as st

from rowtide.gateway import requests
from rowtide.gateway.wire.envelopes import Envelope, read, write
from rowtide.gateway.wire.typed_json import alternatives_of, fields_of
from rowtide.merge.articles import Article, ArticleColumn, JoinFilter
from rowtide.merge.inspection.device_validation import ValidateAnswer, ValidateRequest
from rowtide.merge.publishing.rows_at_hub import RowsAnswer, RowsRequest
from rowtide.merge.publishing.schema_steps import SchemaStep
from rowtide.merge.session.messages import Acknowledgement, DeviceState, RowBatch, SyncAnswer, SyncRequest
from rowtide.merge.session.pending_changes import PendingAtHub
from rowtide.merge.versions.changes import RowChange, TombstoneType
from rowtide.merge.versions.comparison import Lineage, NodeChange, encode_columns

PAGE = Path(__file__).parents[4] / "docs" / "reference" / "wire-protocol.md"
MESSAGES: tuple[Any, ...] = (
    *(kind for kind in vars(requests).values() if is_dataclass(kind)),
    Acknowledgement,
    DeviceState,
    SchemaStep,
    SyncAnswer,
    SyncRequest,
    PendingAtHub,
    RowsAnswer,
    RowsRequest,
    ValidateAnswer,
    ValidateRequest,
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
INTEGERS = st.integers(-(1 << 63), (1 << 63) - 1)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
COLUMNS = (
    ArticleColumn("id", "bigint", is_nullable=False, key_ordinal=1, number=1),
    ArticleColumn("née \\ \"'", "text", is_nullable=True, key_ordinal=None, number=2),
)
ARTICLES = st.sampled_from(
    [
        Article("item", "", "item", 1, COLUMNS, join_filters=(JoinFilter("parent", "a = b"),)),
        Article("Ö", "shop", "it's", (1 << 31) - 1, COLUMNS, column_tracking=True, subset_filter="a = ''"),
    ]
)
PLAIN: Mapping[Any, st.SearchStrategy[Any]] = {
    str: TEXTS,
    int: INTEGERS,
    bool: st.booleans(),
    float: NUMBERS,
    bytes: st.binary(max_size=8),
    Article: ARTICLES,
}
ROWGUIDS = st.uuids().map(str)
CHANGES = st.builds(NodeChange, st.integers(1, (1 << 48) - 1), st.integers(0, (1 << 32) - 1))
COLUMN_CHANGES = st.dictionaries(st.integers(0, 3), CHANGES, max_size=2).map(encode_columns)


@cache
def values_of(kind: Any) -> st.SearchStrategy[Any]:
    """Return the values of a type of the messages."""
    kind, has_none = alternatives_of(kind)
    found = _plain_values(kind)
    return st.none() | found if has_none else found


def _plain_values(kind: Any) -> st.SearchStrategy[Any]:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is tuple and arguments[-1] is not ...:
        return st.tuples(*map(values_of, arguments))
    if origin in (tuple, Sequence):
        return st.lists(values_of(arguments[0]), max_size=2).map(tuple)
    if origin is Mapping:
        return st.dictionaries(values_of(arguments[0]), values_of(arguments[1]), max_size=2)
    if kind in PLAIN:
        return PLAIN[kind]
    if isinstance(kind, type) and issubclass(kind, Enum):
        return st.sampled_from(kind)
    return st.builds(kind, **{name: values_of(of_field) for name, (of_field, _) in fields_of(kind).items()})


@st.composite
def row_changes(draw: st.DrawFn, width: int | None) -> RowChange:
    """Draw a row of so many values, or a tombstone."""
    last = draw(CHANGES)
    tombstone = None if width is not None else draw(st.sampled_from(TombstoneType))
    return RowChange(
        draw(ROWGUIDS),
        Lineage.of([last, *draw(st.lists(CHANGES, max_size=2))]).encode(),
        last.encode(),
        draw(st.none() | COLUMN_CHANGES),
        None if width is None else tuple(draw(st.lists(st.none() | TEXTS, min_size=width, max_size=width))),
        tombstone,
        draw(st.sampled_from([None, '[[1, "5"]]'])),
        draw(st.lists(st.none() | ROWGUIDS, max_size=2).map(tuple)),
        draw(st.none() | NUMBERS),
        draw(st.none() | st.integers(0, (1 << 32) - 1)),
    )


WIDTHS = st.none() | st.integers(0, 3)
OF_ONE_KIND = WIDTHS.flatmap(lambda width: st.lists(row_changes(width), max_size=3))
BATCHES = st.lists(st.builds(RowBatch, INTEGERS, OF_ONE_KIND), max_size=2)


def plain(value: Any) -> Any:
    """Return a value without what a list and a tuple of the same differ by."""
    if isinstance(value, Article):
        return value.encode()
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: plain(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, Mapping):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, bytes):
        return b64encode(value)
    return value


@pytest.mark.parametrize("kind", MESSAGES, ids=lambda kind: kind.__name__)
@settings(max_examples=25)
@given(data=st.data())
def test_a_message_comes_back_as_it_was(kind: type, data: st.DataObject) -> None:
    envelope = Envelope(data.draw(values_of(kind)), data.draw(BATCHES), is_last=data.draw(st.booleans()))
    body = write(envelope)
    found = read(body, kind)
    assert plain(found) == plain(envelope)
    assert write(found) == body


def test_these_are_the_messages_of_the_page() -> None:
    listed = PAGE.read_text(encoding="utf-8")
    steps = listed.partition("## Steps")[2].partition("## Messages")[0]
    named = {name.partition("]")[0] for name in steps.split("[")[1:]}
    assert named
    assert named <= {kind.__name__ for kind in MESSAGES}
