"""Streams and batches of the Spark source over made lakes: offsets and rows, without Spark."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from builders.capture.capture_instances import instance, source_table
from builders.lakes.made_lakes import MadeLake, make_rows
from rowtide.cdc.change_columns import full_mask, pack_mask
from rowtide.cdc.errors.querying import (
    InstanceUnknown,
    LsnOutOfRange,
    NetChangesUnsupported,
    StreamAhead,
    StreamColumnsChanged,
    StreamedInstanceNeeded,
    StreamedInstanceReplaced,
    StreamedTransactionMissing,
    StreamOffsetUnknown,
    StreamOvertaken,
)
from rowtide.cdc.instances import Instance
from rowtide.cdc.published import ALTERED, DISABLED, ENABLED, SKIPPED
from rowtide.cdc.spark_source import options, streams
from rowtide.cdc.spark_source.options import Planned, parse_options, read_slices
from rowtide.cdc.spark_source.streams import ChangeBatch, ChangeStream, parse_offset
from rowtide.cdc.system_tables import InstanceEvent
from rowtide.core.lsn import CommitLsn
from rowtide.core.tables import BeforeImages

ITEM = instance("m1")
OTHER = instance("m2", table=source_table([("id", "bigint"), ("price", "numeric(8,2)")], name="t2", source_id=2))
ITEM_2 = instance("m3", name="public_t1_2", table=source_table([("id", "integer"), ("name", "text"), ("note", "text")]))
NAME = ITEM.capture_instance
Offset = dict[str, Any]


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "_LOCAL_LOOKS_S", 0.0)


@pytest.fixture
def made(tmp_path: Path) -> MadeLake:
    """An instance that begins at 90, with published transactions 100, 110, 120."""
    lake = MadeLake(tmp_path / "lake")
    lake.enable(ITEM, 90)
    publish(lake, ITEM, 100, 110, 120)
    return lake


def publish(lake: MadeLake, of: Instance, *lsns: int) -> None:
    lake.publish((of, [make_rows(of, [change(of, lsn) for lsn in lsns])]))


def change(of: Instance, lsn: int, operation: int = 2, **values: Any) -> dict[str, Any]:
    key = {} if operation == 6 else {"id": lsn}
    position = {"__$start_lsn": lsn, "__$seqval": 1, "__$operation": operation}
    return {**position, "__$update_mask": full_mask(len(of.columns)), **key, **values}


class Query:
    """What Spark makes of a stream: a checkpoint, from which it is started again as often as it is asked."""

    def __init__(self, lake: MadeLake, **options: str) -> None:
        self.options = {"path": lake.path, **({} if "instances" in options else {"instance": NAME}), **options}
        self.checkpoint: list[Offset] = []
        """The ends of the batches that the sink has."""
        self.planned: Offset | None = None
        """The end of a batch that the sink may not have."""
        self.rows: list[dict[str, Any]] = []
        self.start()

    def start(self) -> None:
        """Start, as Spark does: it asks for the last batch's partitions again, from its end to its end."""
        options = parse_options(self.options)
        options.require_streamable()
        self.stream = ChangeStream(options, ChangeBatch(options, None).find_columns())
        for last in [self.planned, *self.checkpoint[::-1]]:
            if last is not None:
                assert list(rows_of(self.plan(last, last))) == []
                return

    def plan(self, start: Offset, end: Offset) -> Planned | None:
        # Spark's checkpoint is JSON.
        start, end = json.loads(json.dumps(start)), json.loads(json.dumps(end))
        return self.stream.plan(parse_offset(start), parse_offset(end))

    def read(self) -> list[int]:
        """Read a batch if there is one, which the sink takes; return its LSNs."""
        found = self.offer()
        self.take(found)
        return [row["__$start_lsn"] for row in found]

    def offer(self) -> list[dict[str, Any]]:
        """Read a batch, the one that the sink does not have yet if there is one; return its rows."""
        end = self.planned or self.stream.find_latest().as_json()
        start = self.checkpoint[-1] if self.checkpoint else self.stream.find_beginning().as_json()
        if end == start:
            return []
        self.planned = end
        return list(rows_of(self.plan(start, end)))

    def take(self, rows: list[dict[str, Any]]) -> None:
        """Let the sink have a batch, and the checkpoint its end."""
        if self.planned is not None:
            self.checkpoint.append(self.planned)
            self.planned = None
        self.rows += rows


def rows_of(planned: Planned | None) -> Iterator[dict[str, Any]]:
    if planned is None:
        return
    for task in planned.tasks:
        for rows in read_slices(task, planned.shape):
            yield from rows.to_pylist()


def batch(lake: MadeLake, high: int | None = None, **options: str) -> list[dict[str, Any]]:
    named = {} if "instances" in options else {"instance": NAME}
    parsed = parse_options({"path": lake.path, **named, **options})
    found = ChangeBatch(parsed, CommitLsn(high) if high is not None else None)
    return list(rows_of(found.plan(found.find_columns())))


def test_a_stream_reads_what_is_published_once(made: MadeLake) -> None:
    query = Query(made)
    assert query.read() == [100, 110, 120]
    assert query.read() == []
    publish(made, ITEM, 130)
    assert query.read() == [130]
    query.start()
    assert query.read() == []
    publish(made, ITEM, 140, 150)
    assert query.read() == [140, 150]


@pytest.mark.parametrize(
    ("options", "lsns"),
    [
        ({"startingLsn": "110"}, [110, 120, 130]),
        ({"startingLsn": "0"}, [100, 110, 120, 130]),
        ({"startingLsn": "latest"}, [130]),
        ({"startingLsn": "0/A00"}, []),
        ({"startingTime": "2026-01-01T00:00:05"}, [130]),
        ({"endingLsn": "110"}, [100, 110]),
        ({"startingLsn": "101", "endingLsn": "0/6E"}, [110]),
    ],
)
def test_a_stream_begins_and_ends_where_it_is_told(made: MadeLake, options: Mapping[str, str], lsns: list[int]) -> None:
    query = Query(made, **options)
    first = query.read()
    publish(made, ITEM, 130)
    assert first + query.read() == lsns


def test_batches_have_whole_transactions_up_to_a_number(made: MadeLake) -> None:
    made.publish((ITEM, [make_rows(ITEM, [change(ITEM, lsn, id=key) for lsn in (130, 140) for key in (1, 2)])]))
    query = Query(made, maxTransactionsPerTrigger="2")
    assert query.read() == [100, 110]
    query.start()
    assert query.read() == [120, 130, 130]
    assert query.read() == [140, 140]
    assert query.read() == []


@pytest.mark.parametrize("start", [{}, {"startingLsn": "100"}, {"startingLsn": "latest"}])
def test_a_first_batch_that_is_repeated_begins_where_it_began(made: MadeLake, start: Mapping[str, str]) -> None:
    query = Query(made, maxTransactionsPerTrigger="2", **start)
    if start.get("startingLsn") == "latest":
        assert query.read() == []
    publish(made, ITEM, 130)
    first = query.offer()
    assert first
    publish(made, ITEM, 140)
    for _ in range(3):
        query.start()
        assert query.offer() == first
    query.take(first)
    while query.read():
        pass
    begin = 130 if start.get("startingLsn") == "latest" else 100
    assert [row["__$start_lsn"] for row in query.rows] == list(range(begin, 150, 10))


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.exhaustive) for seed in range(1, 20))])
def test_whatever_fails_a_stream_has_each_change_once(made: MadeLake, seed: int) -> None:
    """Sinks refuse, and drivers die; meanwhile more is published, and what was read is removed."""
    chosen = random.Random(seed)
    limits = chosen.choice([{}, {"maxTransactionsPerTrigger": "1"}, {"maxTransactionsPerTrigger": "3"}])
    query, published = Query(made, **limits), [100, 110, 120]
    for lsn in range(130, 300, 10):
        if chosen.random() < 0.6:
            publish(made, ITEM, lsn)
            published.append(lsn)
        offered = query.offer()
        for _ in range(chosen.choice([0, 0, 1, 3])):
            query.start()
            assert query.offer() == offered
        query.take(offered)
        if chosen.random() < 0.2 and query.rows:
            low = CommitLsn(query.rows[-1]["__$start_lsn"] + 1)
            made.record(InstanceEvent(ITEM, ENABLED, low, "the change rows were removed by the cleanup"))
        if chosen.random() < 0.3:
            query.start()
    while query.read():
        pass
    assert [row["__$start_lsn"] for row in query.rows] == published


def test_a_batch_is_the_same_after_more_was_published(made: MadeLake) -> None:
    query = Query(made)
    query.read()
    publish(made, ITEM, 130)
    start, end = query.checkpoint[-1], query.stream.find_latest().as_json()
    publish(made, ITEM, 140)
    query.start()
    for _ in range(2):
        assert [row["__$start_lsn"] for row in rows_of(query.plan(start, end))] == [130]


def test_a_checkpoint_ahead_of_the_lake_is_refused(made: MadeLake, tmp_path: Path) -> None:
    query = Query(made)
    query.read()
    restored = MadeLake(tmp_path / "restored")
    restored.enable(ITEM, 90)
    publish(restored, ITEM, 100, 110)
    query.options["path"] = restored.path
    query.start()
    with pytest.raises(StreamAhead, match="after LSN 0/78, .* ends at 0/6E"):
        query.stream.find_latest()
    with pytest.raises(StreamAhead):
        query.plan(query.checkpoint[-1], {**query.checkpoint[-1], "lsn": 110})


def test_a_stream_that_cleanup_overtook_is_refused(made: MadeLake) -> None:
    query = Query(made, maxTransactionsPerTrigger="1")
    query.read()
    made.record(InstanceEvent(ITEM, ENABLED, CommitLsn(111), "the change rows were removed by the cleanup"))
    publish(made, ITEM, 130)
    with pytest.raises(StreamOvertaken, match="resumes at LSN 0/65, but public_t1 begins at 0/6F now: the change rows"):
        query.read()
    query.start()
    with pytest.raises(StreamOvertaken):
        query.read()
    with pytest.raises(LsnOutOfRange):
        Query(made, startingLsn="100").read()
    assert Query(made).read() == [120, 130]


def test_a_cleanup_of_what_was_read_disturbs_nothing(made: MadeLake) -> None:
    query = Query(made)
    query.read()
    made.record(InstanceEvent(ITEM, ENABLED, CommitLsn(121), "the change rows were removed by the cleanup"))
    publish(made, ITEM, 130)
    assert query.read() == [130]


def test_an_instance_enabled_again_is_another_one(made: MadeLake) -> None:
    query = Query(made)
    query.read()
    made.record(InstanceEvent(ITEM, DISABLED, CommitLsn(125)))
    made.publish(lsns=[126])
    with pytest.raises(InstanceUnknown):
        query.read()
    made.record(InstanceEvent(replace(ITEM, member_id="m9"), ENABLED, CommitLsn(127)))
    made.publish(lsns=[128])
    with pytest.raises(StreamedInstanceReplaced, match="has read up to LSN 0/78"):
        query.read()


def test_a_missing_transaction_stops_the_stream_before_it(made: MadeLake) -> None:
    query = Query(made)
    made.record(InstanceEvent(ITEM, SKIPPED, CommitLsn(125), "skipped by hand"))
    publish(made, ITEM, 130)
    assert query.read() == [100, 110, 120]
    with pytest.raises(StreamedTransactionMissing, match=r"before LSN 0/7D .* startingLsn=0/7E"):
        query.read()
    assert Query(made, startingLsn="126").read() == [130]


def test_a_type_that_widens_asks_for_a_restart(made: MadeLake) -> None:
    query = Query(made)
    query.read()
    columns = (replace(ITEM.columns[0], type_text="bigint"), *ITEM.columns[1:])
    made.record(InstanceEvent(replace(ITEM, columns=columns), ALTERED, CommitLsn(125)))
    publish(made, ITEM, 130)
    with pytest.raises(StreamColumnsChanged, match="id is bigint, not int"):
        query.read()
    query.start()
    assert query.read() == [130]


def test_instances_of_several_tables_have_values_in_json(made: MadeLake) -> None:
    made.enable(OTHER, 125)
    rows = [change(OTHER, 130, id=2**53 + 1), change(OTHER, 150, 6)]
    made.publish((OTHER, [make_rows(OTHER, rows)]), (ITEM, [make_rows(ITEM, [change(ITEM, 140, name='a "b"')])]))
    query = Query(made, instances=f"{NAME},{OTHER.capture_instance}")
    assert query.read() == [100, 110, 120, 130, 140, 150]
    found = [(row["__$capture_instance"], row["__$values"]) for row in query.rows[3:]]
    assert [name for name, _ in found] == ["public_t2", "public_t1", "public_t2"]
    assert [json.loads(values) if values is not None else None for _, values in found] == [
        {"id": 2**53 + 1, "price": None},
        {"id": 140, "name": 'a "b"'},
        None,
    ]


def test_values_that_the_log_left_out_are_left_out_of_json(tmp_path: Path) -> None:
    keyed = replace(ITEM, before_images=BeforeImages.KEY)
    made = MadeLake(tmp_path / "lake")
    made.enable(keyed, 90)
    made.enable(OTHER, 90)
    lacking = {"__$absent_mask": pack_mask([2], 2), "__$exact": [(1, "12345678901")]}
    made.publish((keyed, [make_rows(keyed, [change(keyed, 100, 4, **lacking)])]))
    (row,) = batch(made, 100, instances=f"{NAME},{OTHER.capture_instance}")
    assert row["__$values"] == '{"id": 12345678901}'


def test_a_tables_instances_are_one_stream_that_changes_over(made: MadeLake) -> None:
    query = Query(made, instances=NAME)
    assert query.read() == [100, 110, 120]
    made.enable(ITEM_2, 125)
    newer = [make_rows(ITEM_2, [change(ITEM_2, lsn, note="n") for lsn in (130, 140)])]
    made.publish((ITEM, [make_rows(ITEM, [change(ITEM, lsn) for lsn in (124, 130, 140)])]), (ITEM_2, newer))
    query.options["instances"] = f"{NAME}, {ITEM_2.capture_instance}"
    query.start()
    assert query.read() == [124, 130, 140]
    columns = ("__$capture_instance", "id", "note")
    assert [tuple(row[name] for name in columns) for row in query.rows[3:]] == [
        (NAME, 124, None),
        (ITEM_2.capture_instance, 130, "n"),
        (ITEM_2.capture_instance, 140, "n"),
    ]
    assert [row["note"] for row in batch(made, 140, instances=query.options["instances"])] == [None] * 4 + ["n", "n"]
    query.options["instances"] = ITEM_2.capture_instance
    query.start()
    publish(made, ITEM_2, 150)
    assert query.read() == [150]


def test_an_older_instance_is_needed_until_the_newer_begins(made: MadeLake) -> None:
    query = Query(made, maxTransactionsPerTrigger="2")
    assert query.read() == [100, 110]
    made.enable(ITEM_2, 125)
    publish(made, ITEM_2, 130)
    query.options["instance"] = ITEM_2.capture_instance
    query.start()
    with pytest.raises(
        StreamedInstanceNeeded, match="public_t1 is omitted, .* up to LSN 0/6E, and public_t1_2 begins only at"
    ):
        query.read()


def test_an_older_instance_is_needed_for_a_repeated_batch(made: MadeLake) -> None:
    query = Query(made, instances=NAME)
    query.read()
    made.enable(ITEM_2, 125)
    made.publish((ITEM, [make_rows(ITEM, [change(ITEM, 124)])]), (ITEM_2, [make_rows(ITEM_2, [change(ITEM_2, 130)])]))
    query.options["instances"] = f"{NAME},{ITEM_2.capture_instance}"
    query.start()
    end = query.stream.find_latest().as_json()
    query.options["instances"] = ITEM_2.capture_instance
    query.start()
    with pytest.raises(StreamedInstanceNeeded):
        query.plan(query.checkpoint[-1], end)


def test_an_instance_that_joins_begins_behind_the_checkpoint(made: MadeLake) -> None:
    made.enable(OTHER, 125)
    publish(made, OTHER, 130)
    query = Query(made, instances=NAME)
    query.read()
    query.options["instances"] = f"{NAME},{OTHER.capture_instance}"
    query.start()
    publish(made, OTHER, 140)
    assert query.read() == [140]


def test_large_tables_are_read_by_several_tasks(made: MadeLake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options, "_TASK_BYTES", 1)
    publish(made, ITEM, 130)
    publish(made, ITEM, 140)
    parsed = parse_options({"path": made.path, "instance": NAME, "startingLsn": "110", "endingLsn": "135"})
    found = ChangeBatch(parsed, None)
    planned = found.plan(found.find_columns())
    assert [[row["id"] for row in rows_of(Planned(planned.shape, [task]))] for task in planned.tasks] == [
        [110, 120],
        [130],
    ]


def test_a_batch_refuses_what_windows_refuse(made: MadeLake) -> None:
    assert batch(made, 120, startingLsn="121") == []
    outside = [{"startingLsn": "122"}, {"endingLsn": "121"}, {"endingLsn": "50"}]
    for refused in (*outside, {"startingLsn": "110", "endingLsn": "100"}):
        with pytest.raises(LsnOutOfRange):
            batch(made, 120, **refused)
    keyless = instance("m4", table=source_table([("name", "text")], key=(), name="t3", source_id=3))
    made.enable(keyless, 121)
    made.publish(lsns=[121])
    with pytest.raises(NetChangesUnsupported):
        batch(made, 121, instance=keyless.capture_instance, changes="net")


def test_an_offset_of_another_source_is_named(made: MadeLake) -> None:
    for other in (
        {"0": 5},
        {"lsn": 5},
        {"format": "1/1/1", "lsn": "5", "instances": {NAME: {"member": "m1", "begin": 1}}},
    ):
        with pytest.raises(StreamOffsetUnknown):
            Query(made).plan(other, other)
