"""Any message comes back from the wire as it was; any body is either read or refused."""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from enum import Enum
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given, settings, strategies as st

from rowtide.gateway import requests
from rowtide.gateway.errors import MessageMalformed, ProtocolUnknown
from rowtide.gateway.wire.envelopes import Envelope, read, write
from rowtide.gateway.wire.typed_json import fields_of
from rowtide.merge.articles import Article, ArticleColumn
from rowtide.merge.publishing.schema_steps import SchemaStep
from rowtide.merge.session.messages import Acknowledgement, DeviceState, RowBatch, SyncAnswer, SyncRequest
from rowtide.merge.versions.changes import RowChange, TombstoneType
from rowtide.merge.versions.comparison import Lineage, NodeChange

KINDS = (
    SyncRequest,
    SyncAnswer,
    Acknowledgement,
    DeviceState,
    SchemaStep,
    requests.Registration,
    requests.Registered,
    requests.Wait,
    requests.Waited,
    requests.MoreRequest,
    requests.FileRequest,
    requests.DeviceFile,
    requests.DeviceConflicts,
    requests.Done,
)
ARTICLE = Article(
    name="item",
    nickname=7,
    schema="public",
    table="item",
    columns=(ArticleColumn("id", "integer", is_nullable=False, key_ordinal=1, number=1),),
    processing_order=1,
)
NODE_CHANGES = st.builds(NodeChange, st.integers(1, (1 << 48) - 1), st.integers(0, (1 << 31) - 1))


def values_of(kind: Any) -> st.SearchStrategy[Any]:
    """Return any values of a type."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return st.one_of([values_of(one) for one in arguments])
    if origin is tuple and arguments[-1] is not ...:
        return st.tuples(*map(values_of, arguments))
    if origin in (tuple, Sequence):
        return st.lists(values_of(arguments[0]), max_size=3).map(tuple)
    if origin is Mapping:
        return st.dictionaries(values_of(arguments[0]), values_of(arguments[1]), max_size=3)
    if kind is Article:
        return st.just(ARTICLE)
    if is_dataclass(kind):
        return st.builds(kind, **{name: values_of(of_field) for name, (of_field, _) in fields_of(kind).items()})
    if isinstance(kind, type) and issubclass(kind, Enum):
        return st.sampled_from(list(kind))
    return PLAIN[kind]


PLAIN: Mapping[Any, st.SearchStrategy[Any]] = {
    str: st.text(st.characters(), max_size=8),
    int: st.integers(-(1 << 63), (1 << 63) - 1),
    bool: st.booleans(),
    float: st.floats(allow_nan=False, allow_infinity=False),
    bytes: st.binary(max_size=8),
    types.NoneType: st.none(),
}


@st.composite
def changes(draw: st.DrawFn) -> RowChange:
    last = draw(NODE_CHANGES)
    row = draw(st.none() | st.lists(st.none() | st.text(max_size=8), max_size=4).map(tuple))
    return RowChange(
        str(draw(st.uuids())),
        Lineage.EMPTY.with_change(last).encode(),
        last.encode(),
        draw(st.none() | st.just(b"")),
        row,
        draw(st.sampled_from(TombstoneType)) if row is None else None,
        draw(st.none() | st.just('[[1, "5"]]')),
        tuple(draw(st.lists(st.none() | st.uuids().map(str), max_size=2))),
        draw(st.none() | st.floats(-1e9, 1e9)),
        draw(st.none() | st.integers(0, 1 << 40)),
    )


BATCHES = st.lists(st.builds(RowBatch, st.integers(1, 1 << 31), st.lists(changes(), max_size=4)), max_size=2).map(tuple)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_message_comes_back_as_it_was(kind: Any) -> None:
    assert get_type_hints(kind) is not None

    @settings(max_examples=30, deadline=None)
    @given(values_of(kind), BATCHES, st.booleans())
    def run(message: Any, batches: tuple[RowBatch, ...], is_last: bool) -> None:  # noqa: FBT001 - Hypothesis gives it
        envelope = Envelope(message, batches, is_last)
        found = read(write(envelope), kind)
        assert found == envelope
        assert repr(found.message) == repr(message)

    run()


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200), st.data())
def test_any_body_is_read_or_refused(noise: bytes, data: st.DataObject) -> None:
    body = bytearray(write(Envelope(requests.MoreRequest(1, 2, 3), data.draw(BATCHES))))
    place = data.draw(st.integers(0, len(body)))
    body[place : place + data.draw(st.integers(0, 20))] = noise
    try:
        read(bytes(body), requests.MoreRequest)
    except (MessageMalformed, ProtocolUnknown) as error:
        assert error.number in (8410, 8411)
