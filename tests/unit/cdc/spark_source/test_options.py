"""Options of the Spark source, as users write them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

import pytest

from rowtide.cdc.errors.querying import SourceOptionInvalid, UnknownRowFilter
from rowtide.cdc.spark_source.options import parse_options
from rowtide.core.errors import InvalidLsn
from rowtide.core.lsn import CommitLsn

USUAL = {"path": "/lake", "instance": "public_t1"}


def test_names_are_read_in_any_case(tmp_path: Path) -> None:
    found = parse_options(
        {"PATH": str(tmp_path), "INSTANCES": "a, b,a", "startinglsn": "0/10", "EndingTime": "2026-01-01"}
    )
    assert (found.lake, found.instances, found.are_several) == (str(tmp_path), ("a", "b"), True)
    assert (found.start, found.end) == (CommitLsn(16), datetime(2026, 1, 1))  # noqa: DTZ001 - as it is written


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"path": "/lake"}, "the option instance of the Spark source is missing"),
        ({"instance": "a"}, "the option path of the Spark source is missing"),
        ({**USUAL, "instances": "a,b"}, "is given beside instances"),
        ({"path": "/lake", "instance": "a,b"}, 'the option instance of the Spark source is "a,b"'),
        ({"path": "/lake", "instances": "a,"}, 'the option instances of the Spark source is "a,"'),
        ({**USUAL, "maxTransactionPerTrigger": "5"}, "maxTransactionPerTrigger of the Spark source is unknown"),
        ({**USUAL, "maxTransactionsPerTrigger": "0"}, 'is "0"'),
        ({**USUAL, "changes": "some"}, 'is "some"'),
        ({**USUAL, "endingLsn": "latest"}, "is latest"),
        ({**USUAL, "startingTime": "yesterday"}, 'is "yesterday"'),
        ({**USUAL, "startingLsn": "1", "startingTime": "2026-01-01"}, "is given beside startingLsn"),
        ({"path": "/lake", "instances": "a,b", "changes": "net"}, "is net for several instances"),
    ],
)
def test_what_cannot_be_is_named(given: Mapping[str, str], said: str) -> None:
    with pytest.raises(SourceOptionInvalid, match=said):
        parse_options(given)


def test_lsns_and_filters_have_their_own_errors() -> None:
    with pytest.raises(InvalidLsn):
        parse_options({**USUAL, "startingLsn": "first"})
    with pytest.raises(UnknownRowFilter):
        parse_options({**USUAL, "rowFilterOption": "all with mask"})
    assert parse_options({**USUAL, "changes": "net", "rowFilterOption": "All With Mask"}).is_net


def test_streams_and_batches_have_options_of_their_own() -> None:
    for name, value in (("changes", "net"), ("endingTime", "2026-01-01")):
        with pytest.raises(SourceOptionInvalid, match=name):
            parse_options({**USUAL, name: value}).require_streamable()
    for name, value in (("maxTransactionsPerTrigger", "5"), ("startingLsn", "latest")):
        with pytest.raises(SourceOptionInvalid, match=name):
            parse_options({**USUAL, name: value}).require_batch()
