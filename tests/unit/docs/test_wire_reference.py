from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rowtide.gateway import requests
from rowtide.gateway.wire.envelopes import read, write
from rowtide.merge.session.messages import Acknowledgement, SyncAnswer, SyncRequest

ROOT = Path(__file__).parents[3]
REFERENCE = ROOT / "docs" / "reference"
KINDS: dict[str, tuple[Any, Any]] = {
    "register": (requests.DeviceRegistration, requests.RegisteredDevice),
    "file": (requests.FileRequest, requests.DeviceFile),
    "sync": (SyncRequest, SyncAnswer),
    "acknowledge": (Acknowledgement, requests.Done),
    "wait": (requests.Wait, requests.Waited),
    "conflicts": (requests.Done, requests.DeviceConflicts),
    "logout": (requests.Done, requests.Done),
}
RECORDED = json.loads((REFERENCE / "wire-protocol-vectors.json").read_text(encoding="utf-8"))["requests"]


def test_the_page_of_the_wire_says_what_the_messages_are() -> None:
    made = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "wire_reference.py")], check=True, capture_output=True, text=True
    )

    assert (REFERENCE / "wire-protocol.md").read_text(encoding="utf-8") == made.stdout


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda one: one["step"])
def test_recorded_messages_are_read_and_written_alike(recorded: dict[str, Any]) -> None:
    asked, answered = KINDS[recorded["step"]]
    for kind, document in ((asked, recorded["body"]), (answered, recorded["answer"])):
        assert json.loads(write(read(json.dumps(document).encode(), kind))) == document


def test_recorded_messages_have_each_kind_of_row() -> None:
    bodies = [one[side] for one in RECORDED for side in ("body", "answer")]
    rows = [row for body in bodies for batch in body["batches"] for row in batch["rows"]]
    assert any(row[2] is None for row in rows)
    assert any(row[2] is not None and None in row[2] for row in rows)
    assert any(one["step"] == "conflicts" and one["answer"]["message"]["conflicts"] for one in RECORDED)
