"""Devices that say absurd things in requests of the right form: none of them is a fault of the gateway."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from builders.gateway.served_hubs import HUB, Gateway, run_at, serving_hub
from builders.merge.merged_databases import PUBLICATION, Merge
from rowtide.gateway import device_sessions
from rowtide.gateway.client import GatewayClient
from rowtide.gateway.device import Device
from rowtide.gateway.limits import GatewayLimits

TABLE = "create table item (id integer primary key, name varchar(40), region varchar(10), amount integer)"
ROWS = "insert into item (id, name, region, amount) values (1, 'a', 'north', 1), (2, 'b', 'south', 2)"
ABSURD: Sequence[Any] = (
    -1,
    (1 << 31) + 1,
    (1 << 48) + 1,
    "9223372036854775807",
    "",
    "\0",
    "\ud800",
    "x" * 5000,
    "'; drop table item; --",
    "00000000-0000-0000-0000-000000000000",
    {},
    [],
    {"1": []},
    {"-1": ["\0"]},
    [["\0"]],
    True,
    None,
)
MALFORMED, FAULT = "RT-8411", "RT-8419"


@pytest.fixture
def gateway(merged: Merge) -> Iterator[Gateway]:
    """A gateway, with one publication that is filtered."""
    merged.hub.execute(TABLE, ROWS)
    merged.merge.add_publication(PUBLICATION)
    merged.merge.add_article(PUBLICATION, "item", where="region = host_name()", column_tracking=True)
    with serving_hub(merged, limits=GatewayLimits(requests_per_minute=1_000_000)) as served:
        yield served


@dataclass
class Recording(GatewayClient):
    """Keeps the last request of each step."""

    bodies: dict[str, Any] = field(default_factory=dict)

    def exchange(self, step: str, body: bytes, key: str) -> bytes:
        self.bodies[step] = json.loads(body)
        return super().exchange(step, body, key)


def places_in(document: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the places of all values of a document."""
    if place:
        yield place
    if isinstance(document, dict | list):
        for key, value in document.items() if isinstance(document, dict) else enumerate(document):
            yield from places_in(value, (*place, key))


def bent(document: Any, place: tuple[Any, ...], value: Any) -> Any:
    """Return a document with another value in a place."""
    made = deepcopy(document)
    inner = made
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    return made


def begin(gateway: Gateway, path: Path) -> tuple[str, dict[str, Any]]:
    """Return the token of a device that has synchronised, and a request of each step as it could send it."""
    with Device(path, gateway.url) as made:
        made._client = client = Recording(gateway.url, pause=gateway.pauses.append)
        made.register(gateway.merged.merge.add_device("tablet", publication=PUBLICATION, host_name="north"))
        made.sync()
        run_at(
            path,
            "update item set name = 'mine' where id = 1",
            "insert into item (id, name, region) values (5, null, 'north'), (6, '', 'north')",
        )
        made.sync()
        run_at(path, "update item set amount = 7 where id = 5", "delete from item where id = 6")
        made.sync()
        made.validate(checksum=True)
        made.list_pending()
        return client.token, client.bodies | requests_of(gateway, client.bodies)


def requests_of(gateway: Gateway, bodies: dict[str, Any]) -> dict[str, Any]:
    """Return requests that a device sends rarely."""
    sync = bodies["sync"]["message"]["state"]
    state = sync | {"definitions": bodies["validate"]["message"]["state"]["definitions"]}
    article, rowguid = str(bodies["sync"]["batches"][0]["article"]), gateway.merged.hub.rowguid("item", 1)
    lost = {"article": int(article), "rowguid": rowguid, "row": ["1", "x", "y", "1"]}
    refused = {
        "conflict_id": "0" * 32,
        "conflict_type": 10,
        "reason_code": "x",
        "reason_text": "y",
        "winning_row": None,
        "losing_row": lost["row"],
        "losing_lineage": "",
    }
    messages: dict[str, Any] = {
        "more": {"session": sync["session"], "generation": 1, "first": 0},
        "acknowledge": {
            "session": sync["session"],
            "mark": sync["proposed"],
            "received": sync["received"],
            "moves": {article: {"gone": [rowguid], "returned": [rowguid], "stayed": [rowguid]}},
            "accepted": {article: [rowguid]},
            "refused": [{"article": int(article), "rowguid": rowguid, **refused}],
            "counts": {"item": {"inserts": 1}},
            "seconds": 1.0,
        },
        "follow": state,
        "compare": {
            "state": state,
            "rows": {article: [rowguid]},
            "keys": {article: [["1"], ["2"]]},
            "untracked": [{**lost, "lineage": ""}],
        },
    }
    return {step: enveloped(message) for step, message in messages.items()}


def enveloped(message: Any) -> dict[str, Any]:
    return {"protocol": 1, "message": message, "batches": [], "is_last": True}


def send(gateway: Gateway, token: str, step: str, document: Any) -> str:
    """Return the number of the error that answers a request; empty for none."""
    headers = {"Authorization": f"Bearer {token}"}
    _, _, answer = gateway.send("POST", f"/{HUB}/{step}", json.dumps(document).encode(), headers)
    return str(json.loads(answer).get("code", ""))


@pytest.mark.parametrize("step", ["sync", "more", "acknowledge", "follow", "compare", "validate", "pending"])
def test_absurd_values_are_no_fault_of_the_gateway(gateway: Gateway, tmp_path: Path, step: str) -> None:
    token, requests = begin(gateway, tmp_path / "field.db")
    failed = [
        (place, str(value)[:30])
        for place in places_in(requests[step])
        for value in ABSURD
        if send(gateway, token, step, bent(requests[step], place, value)) == FAULT
    ]
    assert not failed
    assert (2, "b", "south") in gateway.merged.hub.rows("item", "id, name, region")


def test_the_rest_of_a_download_has_no_other_batches(
    gateway: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token, requests = begin(gateway, tmp_path / "field.db")
    rows = ", ".join(f"({number}, 'more', 'north')" for number in range(100, 4500))
    gateway.merged.hub.execute(f"insert into item (id, name, region) values {rows}")
    monkeypatch.setattr(device_sessions, "ROWS_EACH", 1)
    headers = {"Authorization": f"Bearer {token}"}
    body = json.dumps(requests["sync"]).encode()
    answer = json.loads(gateway.send("POST", f"/{HUB}/sync", body, headers)[2])
    said = {"session": answer["message"]["terms"]["session"], "first": 1}
    said["generation"] = answer["message"]["download"]["generation"]
    assert send(gateway, token, "more", enveloped(said)) == ""
    assert send(gateway, token, "more", enveloped(said | {"first": 1_000_000})) == ""
    for first in (-1, "-9223372036854775808", "9223372036854775807"):
        assert send(gateway, token, "more", enveloped(said | {"first": first})) in ("", MALFORMED), first


def test_a_refusal_of_another_type_is_refused(gateway: Gateway, tmp_path: Path) -> None:
    token, requests = begin(gateway, tmp_path / "field.db")
    headers = {"Authorization": f"Bearer {token}"}
    synchronised = json.loads(gateway.send("POST", f"/{HUB}/sync", json.dumps(requests["sync"]).encode(), headers)[2])
    said = requests["acknowledge"]
    said["message"] |= {name: synchronised["message"]["terms"][name] for name in ("session", "mark")}
    said["message"]["refused"][0]["conflict_type"] = 5
    assert send(gateway, token, "acknowledge", said) == "RT-8183"
    said["message"]["refused"][0]["conflict_type"] = 10
    assert send(gateway, token, "acknowledge", said) == ""


def test_an_answer_of_large_rows_is_full_early(
    gateway: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "field.db"
    with Device(path, gateway.url) as made:
        made.register(gateway.merged.merge.add_device("tablet", publication=PUBLICATION, host_name="north"))
        made.sync()
        monkeypatch.setattr(device_sessions, "SIZE_EACH", 1)
        rows = ", ".join(f"({number}, 'more', 'north')" for number in range(100, 4500))
        gateway.merged.hub.execute(f"insert into item (id, name, region) values {rows}")
        before = made.client.requests
        made.sync()
        assert made.client.requests - before >= 3
    assert run_at(path, "select count(*) from item where id >= 100") == [(4400,)]
