"""Errors that cross the wire."""

from __future__ import annotations

import json

import pytest

import rowtide.errors  # noqa: F401 - all errors are known
from rowtide.core.errors import Invalid, RowtideError
from rowtide.core.redaction import MASK, Said
from rowtide.gateway.errors import GatewayRefused, TooManyRequests
from rowtide.gateway.wire.problems import describe, read_problem, retry_after_s, status_of
from rowtide.merge.errors.devices import DeviceRevoked, TokenRefused
from rowtide.merge.errors.publishing import MergePublicationUnknown
from rowtide.merge.errors.subscribing import SubscriptionExpired


class RowRefused(Invalid, number=8449):
    """An error that quotes a row."""

    fact = "a row is refused: {reason}"
    hint = "Correct it."
    reason: Said


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (TokenRefused("it is unknown"), 401),
        (DeviceRevoked("tablet", "2026-11-30 08:00 UTC"), 403),
        (MergePublicationUnknown("shop"), 404),
        (TooManyRequests("120 requests a minute", 3.5), 429),
        (SubscriptionExpired("tablet", "2026-01-01", 14), 410),
    ],
)
def test_the_client_raises_the_same_sentence(error: RowtideError, status: int) -> None:
    document = json.loads(json.dumps(describe(error)))
    found = read_problem(document)
    assert type(found) is type(error)
    assert str(found) == str(error)
    assert status_of(error) == document["status"] == status
    assert retry_after_s(error) == (3.5 if status == 429 else None)


def test_an_error_of_a_later_version_keeps_its_words() -> None:
    document = {"code": "RT-8999", "fact": "the moon is full", "hint": "Wait.", "fields": {}}
    found = read_problem(document)
    assert isinstance(found, GatewayRefused)
    assert "RT-8999: the moon is full. Wait." in str(found)


@pytest.mark.parametrize(
    "document",
    [{}, {"code": "x", "fact": "a", "hint": "b"}, {"code": "RT-٣", "fact": "a", "hint": "b"}, {"code": "RT-1"}],
)
def test_what_is_no_problem_of_rowtide_is_none(document: dict[str, object]) -> None:
    assert read_problem(document) is None


def test_fields_that_do_not_fit_make_no_error_of_the_class() -> None:
    document = describe(TokenRefused("x")) | {"fields": {"reason": ["a", "list"]}}
    assert isinstance(read_problem(document), GatewayRefused)
    document = describe(TokenRefused("x")) | {"fields": {"other": "x"}}
    assert isinstance(read_problem(document), GatewayRefused)


def test_values_of_rows_are_not_told() -> None:
    error = RowRefused("Ann lives in 5 Elm Street")
    assert "Elm" not in json.dumps(describe(error))
    assert MASK in str(read_problem(describe(error)))
