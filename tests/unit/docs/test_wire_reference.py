from __future__ import annotations

import base64
import hashlib
import json
import re
import sqlite3
import struct
import subprocess
import sys
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from rowtide.gateway import requests
from rowtide.gateway.wire.envelopes import read, write
from rowtide.gateway.wire.problems import describe, read_problem
from rowtide.merge.articles import ExchangeType
from rowtide.merge.publishing.schema_steps import SchemaStep
from rowtide.merge.session.messages import Acknowledgement, DeviceState, SyncAnswer, SyncRequest

ROOT = Path(__file__).parents[3]
REFERENCE = ROOT / "docs" / "reference"
KINDS: dict[str, tuple[Any, Any]] = {
    "register": (requests.DeviceRegistration, requests.RegisteredDevice),
    "file": (requests.FileRequest, requests.DeviceFile),
    "sync": (SyncRequest, SyncAnswer),
    "more": (requests.MoreRequest, requests.More),
    "follow": (DeviceState, SchemaStep),
    "acknowledge": (Acknowledgement, requests.Done),
    "wait": (requests.Wait, requests.Waited),
    "conflicts": (requests.Done, requests.DeviceConflicts),
    "logout": (requests.Done, requests.Done),
}
VECTORS = json.loads((REFERENCE / "wire-protocol-vectors.json").read_text(encoding="utf-8"))
RECORDED = VECTORS["requests"]
OTHERS: dict[str, list[dict[str, Any]]] = VECTORS["others"]


def test_the_page_of_the_wire_says_what_the_messages_are() -> None:
    made = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "wire_reference.py")], check=True, capture_output=True, text=True
    )

    assert (REFERENCE / "wire-protocol.md").read_text(encoding="utf-8") == made.stdout


def test_the_least_request_of_the_page_is_one() -> None:
    (least, _) = re.findall(
        r"```json\n(.*?)```", (REFERENCE / "wire-protocol.md").read_text(encoding="utf-8"), re.DOTALL
    )
    said = read(least.encode(), SyncRequest).message
    assert (said.exchange, said.upload.since, said.state.refused) == (ExchangeType.BOTH, 0, {})


@pytest.mark.parametrize("recorded", [*RECORDED, *chain(*OTHERS.values())], ids=lambda one: one["step"])
def test_recorded_messages_are_read_and_written_alike(recorded: dict[str, Any]) -> None:
    asked, answered = KINDS[recorded["step"]]
    said = [(asked, recorded["body"])] + ([(answered, recorded["answer"])] if "answer" in recorded else [])
    for kind, document in said:
        assert json.loads(write(read(json.dumps(document).encode(), kind))) == document
    if "answer" not in recorded:
        error = read_problem(recorded["problem"])
        assert error is not None
        assert describe(error) == recorded["problem"]


def test_recorded_messages_have_each_kind_of_row() -> None:
    bodies = [one[side] for one in RECORDED for side in ("body", "answer")]
    rows = [row for body in bodies for batch in body["batches"] for row in rows_of(batch)]
    assert any(row[2] is None for row in rows)
    assert any(row[2] is not None and None in row[2] for row in rows)
    assert any(one["step"] == "conflicts" and one["answer"]["message"]["conflicts"] for one in RECORDED)


def rows_of(batch: dict[str, Any]) -> Iterator[tuple[str, int, list[Any] | None]]:
    """Yield the rows of a batch: the rowguid, the place of the version, and the values, None of a tombstone."""
    rowguids = ["".join(each) for each in zip(*batch["rowguids"], strict=True)]
    columns = batch["columns"]
    rows = [None] * len(rowguids) if columns is None else [list(row) for row in zip(*columns, strict=True)]
    yield from zip(rowguids, batch["places"], rows, strict=True)


def entry(nickname: int, version: int) -> bytes:
    """Return a change: a nickname in 6 bytes, and a generation in 4."""
    return nickname.to_bytes(6, "big") + struct.pack(">I", version)


def with_entry(lineage: bytes, own: bytes) -> bytes:
    """Return a lineage with a node's last change replaced; entries are in the order of nicknames."""
    entries = {lineage[at : at + 6]: lineage[at : at + 10] for at in range(0, len(lineage), 10)}
    entries[own[:6]] = own
    return b"".join(entries[nickname] for nickname in sorted(entries))


def with_columns(columns: bytes, places: set[int], own: bytes) -> bytes:
    """Return the last changes of columns with those of some replaced; in the order of the columns."""
    entries = {columns[at : at + 2]: columns[at : at + 12] for at in range(0, len(columns), 12)}
    entries |= {struct.pack(">H", place): struct.pack(">H", place) + own for place in places}
    return b"".join(entries[place] for place in sorted(entries))


def written(value: Any) -> str | None:
    """Return a value as PostgreSQL writes it."""
    if isinstance(value, bytes):
        return "\\x" + value.hex()
    return None if value is None else str(value)


class RecordedFile:
    """A device's file as it was recorded."""

    def __init__(self, statements: Sequence[str]) -> None:
        self.file = sqlite3.connect(":memory:")
        for statement in statements:
            self.file.execute(statement)

    def one(self, sql: str) -> tuple[Any, ...]:
        found: tuple[Any, ...] = self.file.execute(sql).fetchone()
        return found

    @property
    def rows(self) -> dict[str, list[str | None]]:
        """The rows of the published table by rowguid, as they are sent."""
        columns = ", ".join(self.columns)
        found = self.file.execute(f"select rowguid, {columns} from item")
        return {rowguid: [written(value) for value in row] for rowguid, *row in found}

    @property
    def columns(self) -> list[str]:
        return [column["name"] for column in json.loads(self.definition)["columns"]]

    @property
    def definition(self) -> str:
        return str(self.one("select definition from sysmerge_stored_articles")[0])

    def version(self, rowguid: str) -> tuple[bytes, bytes]:
        """Return the lineage of a row and of its columns."""
        sql = "select lineage, colv from MSmerge_stored_contents where rowguid = ?"
        found = self.file.execute(sql, (rowguid,)).fetchone()
        return self.one("select purged_lineage, x'' from sysmerge_stored_articles") if found is None else found


def calls() -> Iterator[tuple[RecordedFile, list[dict[str, Any]], RecordedFile]]:
    """Yield the file before, the synchronisation's requests, and the file after, by call; the first has none before."""
    asked: list[dict[str, Any]] = []
    for one in RECORDED:
        asked = [one] if "before" in one else [*asked, one]
        if "after" in one:
            yield RecordedFile(asked[0]["before"]), asked, RecordedFile(one["after"])


def test_recorded_states_are_those_of_the_files() -> None:
    _, *later = calls()
    assert later
    for before, asked, after in later:
        state = asked[0]["body"]["message"]["state"]
        names = "subid, replicastate, session, sentgen, recgen, schemaversion, schemaguid"
        said = [state[name] for name in ("subid", "state", "session", "sent", "received")]
        said += [state["schema_version"], state["schema_guid"]]
        assert before.one(f"select {names} from sysmerge_stored_subscriptions") == tuple(said)
        assert before.one("select nickname from MSmerge_replinfo") == (state["nickname"],)
        assert state["fingerprint"] == hashlib.sha256(before.definition.encode()).hexdigest()[:32]
        answer = asked[-1]["answer"]["message"]
        stored = after.one("select replicastate, session, sentgen, recgen from sysmerge_stored_subscriptions")
        terms, generations = answer["terms"], (answer["result"]["generation"], answer["download"]["generation"])
        assert stored == (terms["mark"], terms["session"], *generations)


def test_recorded_uploads_are_what_changed_in_the_files() -> None:
    uploaded = 0
    (_, _, former), *later = calls()
    for before, asked, after in later:
        was, now = former.rows, before.rows
        (own,) = before.one("select nickname from MSmerge_replinfo")
        change = entry(own, asked[0]["body"]["message"]["upload"]["generation"])
        sent = {
            rowguid: (values, batch["versions"][place])
            for batch in asked[0]["body"]["batches"]
            for rowguid, place, values in rows_of(batch)
        }
        assert {rowguid: values for rowguid, (values, _) in sent.items()} == {
            rowguid: now.get(rowguid) for rowguid in was.keys() | now.keys() if was.get(rowguid) != now.get(rowguid)
        }
        for rowguid, (values, version) in sent.items():
            lineage, columns = before.version(rowguid)
            assert base64.b64decode(version["last"]) == change
            assert base64.b64decode(version["lineage"]) == with_entry(lineage, change)
            both = zip(was.get(rowguid, values or ()), values or (), strict=False)
            changed = {place for place, (old, new) in enumerate(both) if old != new}
            assert base64.b64decode(version["columns"]) == with_columns(columns, changed, change)
            uploaded += 1
        former = after
    assert uploaded >= 4


def test_recorded_downloads_make_the_files_that_follow() -> None:
    _, *later = calls()
    for before, asked, after in later:
        rows = before.rows
        for batch in (batch for one in asked for batch in one["answer"]["batches"]):
            for rowguid, _, values in rows_of(batch):
                rows.pop(rowguid, None)
                if values is not None:
                    rows[rowguid] = values
        assert rows == after.rows


def messages(name: str, step: str, side: str) -> list[dict[str, Any]]:
    """Return the messages of a recording, requests or answers of a step."""
    return [one[side]["message"] for one in OTHERS[name] if one["step"] == step and side in one]


def uploaded_batches(name: str, side: str) -> list[dict[str, Any]]:
    return [batch for one in OTHERS[name] if side in one for batch in one[side]["batches"]]


def test_recorded_parents_come_before_their_children() -> None:
    sent, received = (uploaded_batches("parents", side) for side in ("body", "answer"))
    parent, child = (batch["article"] for batch in sent)
    assert [(batch["article"], batch["columns"] is None) for batch in received] == [
        (parent, False),
        (child, False),
        (child, True),
    ]
    assert received[-1]["versions"][0]["tombstone"] == 1
    gone = messages("parents", "acknowledge", "body")[0]["moves"][str(child)]["gone"]
    assert [rowguid for rowguid, _, _ in rows_of(received[-1])] == gone


def test_recorded_refusals_are_of_both_sides() -> None:
    (first, again, asked, answered, last) = messages("refusals", "sync", "answer")
    (refused,) = first["result"]["refused"]
    row = {str(refused["article"]): [refused["rowguid"]]}
    assert refused["is_wanted"]
    assert first["result"]["awaited"] == again["result"]["awaited"] == asked["result"]["wanted"] == row
    assert answered["result"]["awaited"] == last["result"]["awaited"] == {}
    uploads = [one["upload"] for one in messages("refusals", "sync", "body")]
    assert [(one["requested"], one["round"]) for one in uploads] == [({}, 0), (row, 0), ({}, 0), (row, 1), ({}, 0)]

    said = messages("refusals", "acknowledge", "body")
    (lost,) = said[0]["refused"]
    of_hub = {str(lost["article"]): [lost["rowguid"]]}
    assert (lost["conflict_type"], lost["losing_row"][0], lost["winning_row"]) == (6, "40", None)
    assert [one["state"]["refused"] for one in messages("refusals", "sync", "body")] == [{}, of_hub, of_hub, of_hub, {}]
    assert said[-1]["accepted"] == of_hub
    assert [one["is_waiting"] for one in said] == [True, True, False]


def test_recorded_rows_leave_the_partition() -> None:
    (batch,) = uploaded_batches("leaving", "answer")
    assert (batch["columns"], batch["versions"][0]["tombstone"]) == (None, 5)
    (said,) = messages("leaving", "acknowledge", "body")
    assert said["moves"][str(batch["article"])]["gone"] == [rowguid for rowguid, _, _ in rows_of(batch)]


def test_a_recorded_download_has_a_rest() -> None:
    first, rest, lost = OTHERS["more"]
    assert [one["answer"]["is_last"] for one in (first, rest)] == [False, True]
    assert first["answer"]["message"]["download"]["batches"] == 2
    assert rest["body"]["message"]["first"] == len(first["answer"]["batches"]) == 1
    assert (lost["problem"]["code"], lost["problem"]["status"]) == ("RT-8181", 503)


def test_recorded_numbers_of_columns_are_hexadecimal() -> None:
    (one,) = OTHERS["generations"]
    file = RecordedFile([line for line in one["after"] if "MSmerge_stored_contents" in line])
    (own,) = file.one("select own_columns from MSmerge_stored_contents")
    numbers = [int(own[at : at + 16], 16) for at in range(0, len(own), 16)]
    assert max(numbers) == one["body"]["message"]["upload"]["generation"] >= 10
    nickname = one["body"]["message"]["state"]["nickname"]
    changes = b"".join(struct.pack(">H", at) + entry(nickname, each) for at, each in enumerate(numbers) if each)
    (batch,) = one["body"]["batches"]
    assert base64.b64decode(batch["versions"][0]["columns"]) == changes


def test_a_recorded_device_follows_the_schema() -> None:
    steps = [one["step"] for one in OTHERS["follow"]]
    assert steps == ["sync", "sync", "follow", "sync"]
    asked, answered = OTHERS["follow"][1]["answer"]["message"], OTHERS["follow"][2]["answer"]["message"]
    assert asked["must_follow"]
    (article,) = [json.loads(one) for one in answered["articles"] if json.loads(one)["name"] == "customer"]
    assert article["columns"][-1] | {"name": "phone", "number": 5} == article["columns"][-1]
    assert [values for _, values in answered["values"][str(article["nickname"])]] == [["112"]]
    after = RecordedFile([line for line in OTHERS["follow"][-1]["after"] if " customer " in line[:30]])
    assert after.one("select phone from customer where id = 1") == ("112",)


def test_a_restored_file_is_answered_with_its_problem() -> None:
    (restored,) = OTHERS["restored"]
    assert (restored["problem"]["code"], restored["problem"]["status"]) == ("RT-8017", 410)


def value_of_literal(text: str) -> Any:
    """Return the value of a literal in one of the forms that the page names."""
    if text[:1] == "'":
        return text[1:-1].replace("''", "'")
    if text[:1] == "X":
        return bytes.fromhex(text[2:-1])
    return float(text) if {".", "e"} & set(text) else int(text)


def value_of(text: str | None, type_text: str) -> Any:
    """Return the value that a file has for a text on the wire, as the page says."""
    if text is None:
        return None
    if text[:1] == "\0" or type_text == "any":
        return value_of_literal(text.removeprefix("\0"))
    if type_text == "bytea" and re.fullmatch(r"\\x([0-9a-f]{2})*", text):
        return bytes.fromhex(text[2:])
    if type_text == "boolean":
        return {"t": 1, "f": 0}.get(text, text)
    if type_text in ("bigint", "numeric", "double precision"):
        if text.lstrip("-") == "Infinity":
            return float(text)
        return value_of_literal(text) if re.fullmatch(r"-?[0-9.]+(e[+-][0-9]+)?", text) else text
    return text


def test_recorded_values_are_those_of_the_file() -> None:
    types = ("bigint", "boolean", "double precision", "text", "bytea", "numeric", "any", "text")
    received, sent = OTHERS["types"]
    columns = "id, flag, ratio, seen, photo, amount, anything, region, rowguid"
    stored = f"select {columns} from sample order by id"
    for lines, (batch,) in (
        (received["after"], received["answer"]["batches"]),
        (sent["before"], sent["body"]["batches"]),
    ):
        file = RecordedFile(
            [line for line in lines if re.match("create table sample|insert into sample", line, re.IGNORECASE)]
        ).file
        expected = file.execute(stored).fetchall()
        file.execute("delete from sample")
        for rowguid, _, values in rows_of(batch):
            made = [value_of(text, each) for text, each in zip(values or (), types, strict=True)]
            file.execute(f"insert into sample ({columns}) values (?, ?, ?, ?, ?, ?, ?, ?, ?)", [*made, rowguid])
        assert file.execute(stored).fetchall() == expected
        assert len(expected) == 6
