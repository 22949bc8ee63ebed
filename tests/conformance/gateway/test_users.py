"""Devices whose users sign in: claims choose the partition, waiting, and conflicts of a device."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from builders.gateway.served_hubs import HUB, Gateway, run_at, serving_hub
from builders.gateway.signed_tokens import TokenIssuer
from builders.merge.merged_databases import PUBLICATION, Merge
from rowtide.gateway import device_sessions
from rowtide.gateway.client import make_request_key, send_plain
from rowtide.gateway.device import Device, fetch_first_file
from rowtide.gateway.errors import ClaimMissing, ClaimsOlder, DeviceHasFile, JwtRefused, RegistrationNeedsCode
from rowtide.gateway.jwt_identity import make_issuer
from rowtide.gateway.requests import DeviceFile, DeviceRegistration, FileRequest, RegisteredDevice
from rowtide.merge.articles import ExchangeType
from rowtide.merge.errors.devices import DeviceExists, DeviceRevoked
from rowtide.merge.errors.nodes import NodeRestored

TABLE = "create table item (id integer primary key, name varchar(20), region varchar(10))"
ROWS = "insert into item (id, name, region) values (1, 'a', 'north'), (2, 'b', 'south')"


def publish(merged: Merge) -> None:
    merged.hub.execute(TABLE, ROWS)
    merged.merge.add_publication(PUBLICATION)
    merged.merge.add_article(PUBLICATION, "item", where="region = host_name()")


@pytest.fixture
def signing(tmp_path: Path) -> TokenIssuer:
    return TokenIssuer(tmp_path / "keys.json")


@pytest.fixture
def gateway(merged: Merge, signing: TokenIssuer) -> Iterator[Gateway]:
    """A gateway whose devices' users have tokens."""
    publish(merged)
    with serving_hub(merged, issuer=make_issuer(signing.options)) as served:
        yield served


@pytest.fixture
def registering(merged: Merge, signing: TokenIssuer) -> Iterator[Gateway]:
    """A gateway whose devices register by their users' tokens."""
    publish(merged)
    options = replace(signing.options, register_for=PUBLICATION)
    with serving_hub(merged, issuer=make_issuer(options)) as served:
        yield served


@pytest.fixture
def plain(merged: Merge) -> Iterator[Gateway]:
    """A gateway without users."""
    publish(merged)
    with serving_hub(merged) as served:
        yield served


def tablet_of(gateway: Gateway, path: Path, tokens: list[str]) -> Device:
    """Return a registered device; its user has the last of some tokens."""
    made = Device(path, gateway.url, claims=lambda: tokens[-1])
    made.client.pause = gateway.pauses.append
    made.register(gateway.merged.merge.add_device("tablet", publication=PUBLICATION, from_claims=True))
    return made


def rows(path: Path, *statements: str) -> list[Any]:
    with closing(sqlite3.connect(path)) as program:
        for sql in statements:
            program.execute(sql)
        program.commit()
        return program.execute("select id, name, region from item order by id").fetchall()


def at_hub(gateway: Gateway) -> list[Any]:
    return gateway.merged.hub.rows("item", "id, name, region")


def test_a_tablet_that_is_handed_on_loses_nothing(gateway: Gateway, signing: TokenIssuer, tmp_path: Path) -> None:
    tokens = [signing.sign("north", age_s=100)]
    path = tmp_path / "field.db"
    with tablet_of(gateway, path, tokens) as tablet:
        tablet.sync()
        assert rows(path) == [(1, "a", "north")]
        rows(path, "update item set name = 'by ann' where id = 1")
        tokens.append(signing.sign("south", sub="bob", age_s=50))
        tablet.sign_in()
        tablet.sync()
        assert (1, "by ann", "north") in at_hub(gateway)
        assert rows(path) == [(2, "b", "south")]
        tokens.append(signing.sign("north", age_s=100))
        tablet.sign_in()
        with pytest.raises(ClaimsOlder):
            tablet.sync()
        tokens.append(signing.sign("north", age_s=10))
        tablet.sign_in()
        tablet.sync()
        assert rows(path) == [(1, "by ann", "north")]


def test_an_expired_token_is_renewed_and_uploads_need_none(
    gateway: Gateway, signing: TokenIssuer, tmp_path: Path
) -> None:
    tokens = [signing.sign("north")]
    path = tmp_path / "field.db"
    with tablet_of(gateway, path, tokens) as tablet:
        tablet.sync()
        rows(path, "update item set name = 'kept' where id = 1")
        tokens.append(signing.sign("north", age_s=4000))
        tablet.sign_in()
        with pytest.raises(JwtRefused, match="expired"):
            tablet.sync()
        tablet.sync(exchange=ExchangeType.UPLOAD)
        assert (1, "kept", "north") in at_hub(gateway)
        tokens.append(signing.sign("north"))
        tablet.sync()


def test_a_device_without_a_users_token_downloads_nothing(
    gateway: Gateway, signing: TokenIssuer, tmp_path: Path
) -> None:
    with tablet_of(gateway, tmp_path / "field.db", [signing.sign()]) as tablet:
        tablet.sync()
        unsigned = Device(tablet.path, gateway.url, tablet.client.token)
        with unsigned, pytest.raises(JwtRefused, match="none was sent"):
            unsigned.sync()


def test_values_of_rows_need_a_users_token_in_any_way(gateway: Gateway, signing: TokenIssuer, tmp_path: Path) -> None:
    """An upload needs none: what the hub has made of it would tell what the rows are now, as its schema would."""
    with tablet_of(gateway, tmp_path / "field.db", [signing.sign()]) as tablet:
        tablet.sync()
        unsigned = Device(tablet.path, gateway.url, tablet.client.token)
        rows(tablet.path, "update item set name = 'mine' where id = 1")
        gateway.merged.hub.execute("update item set name = 'theirs' where id = 1")
        with unsigned:
            unsigned.sync(exchange=ExchangeType.UPLOAD)
            with pytest.raises(JwtRefused, match="none was sent"):
                unsigned.list_conflicts()
            assert [one.article for one in tablet.list_conflicts()] == ["item"]
            with pytest.raises(JwtRefused, match="none was sent"):
                unsigned.validate(checksum=True)
            run_at(tablet.path, "drop table item")
            with pytest.raises(JwtRefused, match="none was sent"):
                unsigned.reinitialize(upload_first=True)
        tablet.reinitialize(upload_first=True)
        gateway.merged.hub.execute("alter table item add column secret varchar(20) default 'new'")
        with Device(tablet.path, gateway.url, tablet.client.token) as again:
            rows(tablet.path, "update item set name = 'last' where id = 1")
            with pytest.raises(JwtRefused, match="none was sent"):
                again.sync(exchange=ExchangeType.UPLOAD)
        assert (1, "last", "north") in at_hub(gateway)


def begin(plain: Gateway, path: Path, name: str = "tablet") -> Device:
    made = Device(path, plain.url)
    made.register(plain.merged.merge.add_device(name, publication=PUBLICATION, host_name="north"))
    made.sync()
    made.sync()
    return made


def test_a_waiting_device_is_told_of_changes(plain: Gateway, tmp_path: Path) -> None:
    path = tmp_path / "field.db"
    with begin(plain, path) as tablet:
        assert not tablet.wait(0.1)
        told: list[bool] = []
        waiting = threading.Thread(target=lambda: told.append(tablet.wait(30)))
        waiting.start()
        plain.merged.hub.execute("update item set name = 'told' where id = 1")
        waiting.join(30)
        assert told == [True]
        tablet.sync()
        assert rows(path) == [(1, "told", "north")]


def test_a_device_sees_its_own_conflicts(plain: Gateway, tmp_path: Path) -> None:
    one, other = tmp_path / "one.db", tmp_path / "other.db"
    with begin(plain, one) as winner, begin(plain, other, "second") as loser:
        rows(one, "update item set name = 'first' where id = 1")
        rows(other, "update item set name = 'second' where id = 1")
        winner.sync()
        loser.sync()
        assert winner.list_conflicts() == ()
        (conflict,) = loser.list_conflicts()
        assert conflict.article == "item"
        assert '"second"' in str(conflict.losing_row)
        assert not conflict.is_resolved
        loser.reinitialize()
        loser.sync()
        assert loser.list_conflicts() == (conflict,)
        other.unlink()
        loser.sync(replace=True)
        assert loser.list_conflicts() == (conflict,)
        assert winner.list_conflicts() == ()


def signed_in(gateway: Gateway, path: Path, tokens: list[str]) -> Device:
    """Return a device that has nothing but its user's token, the last of some."""
    made = Device(path, gateway.url, claims=lambda: tokens[-1])
    made.client.pause = gateway.pauses.append
    return made


def test_a_device_registers_by_its_users_token(registering: Gateway, signing: TokenIssuer, tmp_path: Path) -> None:
    path, tokens = tmp_path / "field.db", [signing.sign("north")]
    with signed_in(registering, path, tokens) as tablet:
        tablet.sync()
        assert rows(path, "update item set name = 'by ann' where id = 1") == [(1, "by ann", "north")]
        tablet.sync()
    # Another process has the device's token, and needs the user's for what comes down alone.
    with Device(path, registering.url, claims=lambda: tokens[-1]) as again:
        assert again.sync().is_quiet
    assert at_hub(registering) == [(1, "by ann", "north"), (2, "b", "south")]
    assert [(one.name, one.state) for one in registering.merged.merge.list_devices()] == [("ann", "registered")]


def test_a_lost_answer_is_given_again(registering: Gateway, signing: TokenIssuer) -> None:
    key = make_request_key()
    first, second, other = (
        send_plain(
            registering.client(claims=lambda: signing.sign("north")),
            "register",
            DeviceRegistration(),
            RegisteredDevice,
            key=each,
        )
        for each in (key, key, make_request_key())
    )
    assert first == second
    assert (other.device, other.publication) == ("ann", PUBLICATION)
    assert other.token != first.token


def test_an_empty_file_registers_again_and_says_what_is_lost(
    registering: Gateway, signing: TokenIssuer, tmp_path: Path
) -> None:
    path, other = tmp_path / "field.db", tmp_path / "other.db"
    with signed_in(registering, path, [signing.sign("north")]) as tablet:
        tablet.sync()
        tablet.sync()
    with signed_in(registering, other, [signing.sign("north")]) as tablet:
        with pytest.raises(DeviceHasFile, match="what was changed in the lost one"):
            tablet.sync()
        tablet.sync(replace=True)
        assert rows(other) == [(1, "a", "north")]


def test_who_may_not_register_is_refused(registering: Gateway, signing: TokenIssuer, tmp_path: Path) -> None:
    merge = registering.merged.merge
    merge.add_device("carl", publication=PUBLICATION, host_name="south")
    for token, refused, problem in (
        (signing.sign("north", sub="carl"), DeviceExists, "carl"),
        (signing.sign("north", aud="another"), JwtRefused, "aud"),
        (signing.sign(None), ClaimMissing, "has no text as its claim"),
    ):
        with signed_in(registering, tmp_path / "none.db", [token]) as tablet, pytest.raises(refused, match=problem):
            tablet.sync()
    with signed_in(registering, tmp_path / "field.db", [signing.sign("north")]) as tablet:
        tablet.sync()
        merge.revoke_device("ann")
    with signed_in(registering, tmp_path / "again.db", [signing.sign("north")]) as tablet, pytest.raises(DeviceRevoked):
        tablet.sync()


def test_a_gateway_that_takes_codes_alone_says_so(gateway: Gateway, signing: TokenIssuer, tmp_path: Path) -> None:
    tokens = [signing.sign("north")]
    with signed_in(gateway, tmp_path / "field.db", tokens) as tablet, pytest.raises(RegistrationNeedsCode):
        tablet.sync()


def test_a_conflict_shows_no_row_of_others(plain: Gateway, tmp_path: Path) -> None:
    path, of_south = tmp_path / "field.db", plain.merged.hub.rowguid("item", 2)
    with begin(plain, path) as tablet:
        rows(path, f"insert into item (id, name, region, rowguid) values (50, 'x', 'north', '{of_south}')")
        tablet.sync()
        (conflict,) = tablet.list_conflicts()
    assert conflict.rowguid == of_south
    assert '"x"' in str(conflict.losing_row)
    assert conflict.winning_row is None


def test_a_subscription_is_taken_by_its_mark_alone(plain: Gateway, tmp_path: Path) -> None:
    merged, copy = plain.merged, tmp_path / "copy.db"
    member = next(one for one in merged.subscribers if one.url.startswith("sqlite"))
    path = Path(member.url.removeprefix("sqlite:///"))
    merged.merge.add_subscription(PUBLICATION, member.url, host_name="north")
    member.execute(f"vacuum into '{copy}'")
    for _ in range(2):
        merged.merge.sync(PUBLICATION, member.url)
    devices = []
    for name, of_device in (("thief", copy), ("tablet", path)):
        devices.append(Device(of_device, plain.url, publication=PUBLICATION))
        devices[-1].register(merged.merge.add_device(name, publication=PUBLICATION, host_name="north"))
    thief, tablet = devices
    with thief, pytest.raises(NodeRestored):
        thief.sync()
    with tablet:
        assert tablet.sync().is_quiet


def test_a_file_is_of_the_user_that_it_was_made_for(gateway: Gateway, signing: TokenIssuer, tmp_path: Path) -> None:
    """Who has the device's token, and knows the file's name, needs the token of its user too."""
    with tablet_of(gateway, tmp_path / "field.db", [signing.sign("north")]) as tablet:
        said = send_plain(tablet.client, "file", FileRequest(), DeviceFile, key="k" * 16)
        path = f"/{HUB}/files/{said.name}"
        later = signing.sign("south", iat=int(time.time()) + 5)
        north, south = (
            {"Authorization": f"Bearer {tablet.client.token}", "Rowtide-Claims": claims}
            for claims in (signing.sign("north"), later)
        )
        unsigned = {"Authorization": f"Bearer {tablet.client.token}"}
        assert [gateway.send("GET", path, headers=one)[0] for one in (unsigned, south, north)] == [401, 404, 200]


def test_the_next_user_gets_a_file_of_its_own(gateway: Gateway, signing: TokenIssuer, tmp_path: Path) -> None:
    """One signs in after the file was made, and before it was fetched."""
    tokens = [signing.sign("north")]
    with tablet_of(gateway, tmp_path / "field.db", tokens) as tablet:
        key = make_request_key()
        send_plain(tablet.client, "file", FileRequest(), DeviceFile, key=key)
        tokens.append(signing.sign("south", iat=int(time.time()) + 5))
        tablet.sign_in()
        fetch_first_file(tablet.client, tablet.path, key)
        assert {region for _, _, region in rows(tablet.path)} == {"south"}


def test_the_rest_of_a_download_is_of_its_user(
    gateway: Gateway, signing: TokenIssuer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_sessions, "ROWS_EACH", 1)
    with tablet_of(gateway, tmp_path / "field.db", [signing.sign("north")]) as tablet:
        tablet.sync()
        headers = {"Authorization": f"Bearer {tablet.client.token}"}
        for claims, code in (({}, "RT-8426"), ({"Rowtide-Claims": signing.sign("north")}, "RT-8181")):
            said = {"session": 1, "generation": 1, "first": 0}
            document = {"protocol": 1, "message": said, "batches": [], "is_last": True}
            assert gateway.problem("more", document, **headers, **claims)[1] == code
