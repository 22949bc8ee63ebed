"""Commands of a device that reaches its hub by a gateway, without the hub's database."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

import rowtide
from builders.commands.command_lines import Ended, rowtide as run_command
from rowtide.cli.gateway import record_step
from rowtide.core.addresses import Address
from rowtide.gateway.http_server import serving_gateway
from rowtide.gateway.hub_requests import AuditedStep
from rowtide.gateway.hubs import Hub, name_hubs
from rowtide.gateway.tls import TlsOptions

Run = Callable[..., Ended]


def write(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as program:
        for sql in statements:
            program.execute(sql)
        program.commit()


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """What runs a command of a registered device, and expects an exit code."""
    monkeypatch.delenv("ROWTIDE_DB", raising=False)
    hub, file = tmp_path / "shop.db", tmp_path / "field.db"
    write(hub, "create table item (id integer primary key, name text)", "insert into item values (1, 'a'), (2, 'b')")
    merge = rowtide.connect(f"sqlite:///{hub}").merge
    merge.add_publication("shop")
    merge.add_article("shop", "item")
    code = merge.add_device("tablet", publication="shop")
    hubs = name_hubs([f"sqlite:///{hub}"], lambda text: text)
    options = TlsOptions(files=str(tmp_path / "files"))
    with serving_gateway(hubs, Address("127.0.0.1", 0), options, record=record_step) as address:
        device = ["--url", f"http://{address}/shop", "--subscriber", f"sqlite:///{file}"]

        def run(*words: str, exit_code: int = 0) -> Ended:
            ended = run_command("merge", *words, *device)
            assert ended.code == exit_code, ended
            return ended

        run("sync", "--code", code)
        yield run


def test_a_device_needs_no_database_of_its_hub(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "field.db"
    write(file, "update item set name = 'A' where id = 1", "delete from item where id = 2")
    assert "upload" in run("pending", "shop", "--format", "jsonl").output
    run("validate", "shop", "--checksum", exit_code=1)
    run("reinitialize", "shop", "--upload-first")
    run("validate", "shop", "--checksum")
    write(file, "update item set name = 'lost' where id = 1")
    run("reinitialize", "shop", "--yes")
    assert run("pending", "shop", "--format", "jsonl").output.strip() == ""
    run("sync")
    with closing(sqlite3.connect(tmp_path / "shop.db")) as hub:
        assert hub.execute("select id, name from item").fetchall() == [(1, "A")]


@pytest.mark.parametrize("words", [("pending", "shop", "--conflicts"), ("reinitialize", "shop", "--absent-is-delete")])
def test_what_needs_both_databases_is_said(run: Run, words: tuple[str, ...]) -> None:
    run(*words, exit_code=2)


def test_the_audit_has_what_is_done_for_devices(run: Run, tmp_path: Path) -> None:
    hub = f"sqlite:///{tmp_path / 'shop.db'}"
    run("sync")
    run("reinitialize", "shop", "--yes")
    for words in (
        ("rotate-token", "tablet"),
        ("add-device", "other", "--publication", "shop"),
        ("revoke-device", "other"),
    ):
        assert run_command("merge", *words, "--db", hub).code == 0
    assert run_command("merge", "revoke-device", "none", "--db", hub).code == 1
    entries = rowtide.connect(hub).actions.list_entries()
    assert [(one.action, one.subject, one.outcome) for one in reversed(entries)] == [
        ("gateway register", "tablet", "done"),
        ("gateway file", "tablet", "done"),
        ("gateway file", "tablet", "done"),
        ("merge rotate-token", "tablet", "done"),
        ("merge add-device", "other", "done"),
        ("merge revoke-device", "other", "done"),
        ("merge revoke-device", "none", "failed"),
    ]
    of_gateway = [one for one in reversed(entries) if one.channel == "gateway"]
    assert {one.actor for one in of_gateway} == {"device tablet"}
    assert [one.arguments for one in of_gateway] == ["{}", "{}", '{"replaces": true}']
    # A repeated request has one entry.
    step = AuditedStep(Hub("shop", hub), "register", "0" * 10, "tablet", "k" * 16)
    for _ in range(2):
        record_step(step)
    assert len(rowtide.connect(hub).actions.list_entries()) == len(entries) + 1
