"""Events of change rows in each format, from Arrow rows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from builders.capture.capture_instances import instance, source_table
from builders.values.odd_texts import ODD_TEXTS
from rowtide.cdc.following.row_events import (
    EVENT,
    EVENT_ID,
    EventFormat,
    Origin,
    ProducerInfo,
    TransactionRange,
    as_row_events,
    format_events,
)
from rowtide.cdc.instances import Instance
from rowtide.cdc.lake_readers.ordering import ORDER
from rowtide.cdc.rows.conversion import change_schema
from rowtide.core.lsn import CommitLsn

SOURCE = "6f9619ff-8b86-4011-b42d-00c04fc964ff"
LSN = CommitLsn.of(1, 0x2974598)
ENDED = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)
ENDED_MICROS = 1772366400123456
ID_COLUMN = [("id", "integer"), ("name", "text")]
DELETED, INSERTED, BEFORE, AFTER, TRUNCATED = 1, 2, 3, 4, 6


def row(seqval: int, operation: int, **values: Any) -> dict[str, Any]:
    return {"__$start_lsn": LSN.value, "__$seqval": seqval, "__$operation": operation, **values}


def lines(
    form: EventFormat, rows: Sequence[dict[str, Any]], made: Instance | None = None, *, batch_rows: int = 100
) -> list[str]:
    made = made or instance(table=source_table(ID_COLUMN))
    table = pa.Table.from_pylist(list(rows), schema=change_schema(made)).drop_columns(["__$end_lsn"])
    transactions = TransactionRange(LSN, LSN, *(np.array([value]) for value in (LSN.value, ENDED_MICROS, 751)))
    found: list[Any] = []
    for events in as_row_events(table.to_batches(max_chunksize=batch_rows), made, transactions):
        formatted = format_events(form, Origin(SOURCE, "shop", made), events, ProducerInfo("0.1.0", 1772366401000))
        assert formatted.schema.names == [*ORDER, EVENT_ID, EVENT]
        found += formatted.column(EVENT).to_pylist()
    assert all(line.endswith("\n") for line in found)
    return found


def events(form: EventFormat, *rows: dict[str, Any], **more: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines(form, rows, **more)]


def typed(form: EventFormat, type_text: str, value: object, *, exact: str | None = None) -> object:
    made = instance(table=source_table([("id", "integer"), ("v", type_text)]))
    exacts = [(2, exact)] if exact is not None else None
    (event,) = events(form, row(1, INSERTED, id=1, v=value, **{"__$exact": exacts}), made=made)
    return event["after"]["v"]


def test_a_json_line_has_identity_place_time_and_rows() -> None:
    (event,) = events(EventFormat.JSONL, row(3, INSERTED, id=7, name="a"))
    assert event == {
        "id": f"{SOURCE}:1:public_t1:0/2974598:3:2",
        "instance": "public_t1",
        "table": "public.t1",
        "operation": "insert",
        "lsn": "1:0/2974598",
        "seqval": 3,
        "transaction": 751,
        "time": "2026-03-01T12:00:00.123456Z",
        "before": None,
        "after": {"id": 7, "name": "a"},
    }


def test_a_debezium_event_has_its_envelope() -> None:
    (event,) = events(EventFormat.DEBEZIUM, row(3, INSERTED, id=7, name="a"))
    assert event == {
        "before": None,
        "after": {"id": 7, "name": "a"},
        "source": {
            "version": "0.1.0",
            "connector": "postgresql",
            "name": "shop",
            "ts_ms": 1772366400123,
            "snapshot": "false",
            "db": "shop",
            "sequence": f'["{LSN.value}","3"]',
            "schema": "public",
            "table": "t1",
            "txId": 751,
            "lsn": 0x2974598,
            "xmin": None,
            "instance": "public_t1",
            "event_id": f"{SOURCE}:1:public_t1:0/2974598:3:2",
        },
        "transaction": None,
        "op": "c",
        "ts_ms": 1772366401000,
    }


def test_a_cloud_event_is_structured_json() -> None:
    (event,) = events(EventFormat.CLOUDEVENTS, row(3, DELETED, id=7, name="a"))
    data = event.pop("data")
    assert event == {
        "specversion": "1.0",
        "id": f"{SOURCE}:1:public_t1:0/2974598:3:1",
        "source": f"urn:uuid:{SOURCE}",
        "type": "rowtide.change.delete",
        "time": "2026-03-01T12:00:00.123456Z",
        "subject": "public.t1",
        "datacontenttype": "application/json",
    }
    assert (data["operation"], data["before"], data["after"]) == ("delete", {"id": 7, "name": "a"}, None)


@pytest.mark.parametrize("batch_rows", [1, 2, 3, 100])
def test_both_rows_of_an_update_are_one_event(batch_rows: int) -> None:
    rows = [
        row(1, BEFORE, id=1, name="a"),
        row(1, AFTER, id=1, name="b"),
        row(2, INSERTED, id=2, name="c"),
        row(3, BEFORE, id=2, name="c"),
        row(3, AFTER, id=2, name=None),
    ]
    found = events(EventFormat.DEBEZIUM, *rows, batch_rows=batch_rows)
    assert [(event["op"], event["before"], event["after"]) for event in found] == [
        ("u", {"id": 1, "name": "a"}, {"id": 1, "name": "b"}),
        ("c", None, {"id": 2, "name": "c"}),
        ("u", {"id": 2, "name": "c"}, {"id": 2, "name": None}),
    ]


def test_a_changed_key_is_a_delete_and_a_create() -> None:
    rows = (row(5, DELETED, id=1, name="a"), row(5, INSERTED, id=2, name="a"))
    assert [event["op"] for event in events(EventFormat.DEBEZIUM, *rows)] == ["d", "c"]
    ids = [event["id"].split(":")[-2:] for event in events(EventFormat.JSONL, *rows)]
    assert ids == [["5", "1"], ["5", "2"]]


def test_a_truncate_has_no_rows() -> None:
    (event,) = events(EventFormat.DEBEZIUM, row(1, TRUNCATED))
    assert (event["op"], event["before"], event["after"]) == ("t", None, None)
    (event,) = events(EventFormat.JSONL, row(1, TRUNCATED))
    assert (event["operation"], event["before"], event["after"]) == ("truncate", None, None)


def test_absent_values_are_marked() -> None:
    rows = (
        row(1, BEFORE, id=1, name=None, **{"__$absent_mask": b"\x02"}),
        row(1, AFTER, id=1, name=None, **{"__$absent_mask": b"\x02"}),
        row(2, INSERTED, id=2, name=None),
        row(3, DELETED, id=2, name=None, **{"__$absent_mask": b"\x02"}),
    )
    update, insert, delete = events(EventFormat.JSONL, *rows)
    assert (update["before"], update["after"], update["absent"]) == ({"id": 1}, {"id": 1}, ["name"])
    assert (insert["after"], "absent" in insert) == ({"id": 2, "name": None}, False)
    assert (delete["before"], delete["absent"]) == ({"id": 2}, ["name"])
    update, insert, _ = events(EventFormat.DEBEZIUM, *rows)
    assert update["after"] == {"id": 1, "name": "__debezium_unavailable_value"}
    assert insert["after"] == {"id": 2, "name": None}
    (_, insert, _) = events(EventFormat.CLOUDEVENTS, *rows)
    assert "absent" not in insert["data"]


@pytest.mark.parametrize(
    ("type_text", "value", "jsonl", "debezium"),
    [
        ("bigint", 2**53 + 1, 2**53 + 1, 2**53 + 1),
        ("numeric(9,4)", Decimal("1.5000"), "1.5000", "1.5000"),
        ("double precision", float("nan"), "NaN", "NaN"),
        ("double precision", 0.1, 0.1, 0.1),
        ("boolean", True, True, True),
        ("bytea", b"\x01\xff", "01ff", "01ff"),
        ("date", date(2026, 3, 1), "2026-03-01", "2026-03-01"),
        (
            "timestamp without time zone",
            datetime(2026, 3, 1, 12, 0, 0, 5),  # noqa: DTZ001 - of a type without zone
            "2026-03-01 12:00:00.000005",
            "2026-03-01T12:00:00.000005Z",
        ),
        ("timestamp with time zone", ENDED, "2026-03-01 12:00:00.123456+00", "2026-03-01T12:00:00.123456Z"),
        ("jsonb", '{"a": 1}', '{"a": 1}', '{"a": 1}'),
    ],
)
def test_values_are_exact(type_text: str, value: object, jsonl: object, debezium: object) -> None:
    assert typed(EventFormat.JSONL, type_text, value) == jsonl
    assert typed(EventFormat.DEBEZIUM, type_text, value) == debezium


def test_values_that_their_type_lacks_are_their_text() -> None:
    for form in (EventFormat.JSONL, EventFormat.DEBEZIUM):
        assert typed(form, "timestamp without time zone", None, exact="infinity") == "infinity"
        assert typed(form, "integer", None, exact="12") in ("12", 12)


@pytest.mark.parametrize("form", list(EventFormat))
def test_odd_names_and_texts_stay_whole(form: EventFormat) -> None:
    name = 'a "b"\\c, é'
    made = instance(table=source_table([("id", "integer"), (name, "text")]))
    texts = [text for found in ODD_TEXTS.values() for text in found]
    lake_name = made.columns[1].lake_name
    rows = [row(place, INSERTED, id=place, **{lake_name: text}) for place, text in enumerate(texts)]
    found = events(form, *rows, made=made)
    assert [(event.get("data") or event)["after"][name] for event in found] == texts
