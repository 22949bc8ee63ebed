"""Devices, their codes and tokens, with a gateway before each kind of hub."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import select, update

from builders.gateway.served_hubs import HUB, Gateway, serving_hub
from builders.merge.merged_databases import PUBLICATION, Merge
from rowtide.core.addresses import Address
from rowtide.gateway import app
from rowtide.gateway.client import GatewayClient, make_request_key, send_plain
from rowtide.gateway.errors import PublicationNotServed
from rowtide.gateway.http_server import serving_gateway
from rowtide.gateway.hubs import Hub
from rowtide.gateway.limits import GatewayLimits
from rowtide.gateway.requests import DeviceRegistration, Done, More, MoreRequest, RegisteredDevice, Wait
from rowtide.gateway.tls import TlsOptions
from rowtide.gateway.wire.envelopes import Envelope, write
from rowtide.merge.definitions import devices
from rowtide.merge.devices.credentials import read_token
from rowtide.merge.errors.devices import (
    CodeRefused,
    DeviceExists,
    DeviceRevoked,
    DeviceUnknown,
    HoursRefused,
    TokenRefused,
)
from rowtide.merge.errors.publishing import MergePublicationUnknown
from rowtide.merge.errors.subscribing import DownloadLost, PartitionValueMissing
from rowtide.merge.nodes.connecting import open_node

TABLE = "create table item (id integer primary key, name varchar(20), region varchar(10))"
ROWS = "insert into item (id, name, region) values (1, 'a', 'north'), (2, 'b', 'south')"
ORIGIN = "https://app.example"


@pytest.fixture
def gateway(merged: Merge) -> Iterator[Gateway]:
    """A gateway, with one publication that is filtered."""
    merged.hub.execute(TABLE, ROWS)
    merged.merge.add_publication(PUBLICATION)
    merged.merge.add_article(PUBLICATION, "item", where="region = host_name()")
    with serving_hub(merged, limits=GatewayLimits(requests_per_minute=30), origins=(ORIGIN,)) as served:
        yield served


def add(gateway: Gateway, name: str = "tablet") -> str:
    return gateway.merged.merge.add_device(name, publication=PUBLICATION, host_name="north")


def exchange(client: GatewayClient, code: str, key: str) -> str:
    return send_plain(client, "register", DeviceRegistration(code), RegisteredDevice, key=key).token


def leave(client: GatewayClient) -> None:
    send_plain(client, "logout", Done(), Done)


def test_a_code_is_exchanged_once(gateway: Gateway) -> None:
    code, client = add(gateway), gateway.client()
    token = exchange(client, code, "k" * 16)
    assert exchange(client, code.lower().replace("-", " "), "k" * 16) == token
    with pytest.raises(CodeRefused, match="another request has used it"):
        exchange(client, code, "l" * 16)

    registered = gateway.client(token)
    leave(registered)
    with pytest.raises(CodeRefused, match="unknown, or was used"):
        exchange(client, code, "k" * 16)
    with pytest.raises(TokenRefused):
        leave(registered)


def test_what_is_stored_gives_no_token(gateway: Gateway) -> None:
    code, client = add(gateway), gateway.client()
    token = exchange(client, code, make_request_key())
    with open_node(gateway.merged.hub.url) as hub:
        stored = json.dumps([list(map(str, row)) for row in hub.connection.execute(select(devices))])
    found = read_token(token)
    assert found is not None
    assert found.secret not in stored
    assert code[-11:] not in stored
    assert found.digest in stored


def test_a_code_expires(gateway: Gateway) -> None:
    code = add(gateway)
    before = datetime.now(UTC) - timedelta(seconds=1)
    with open_node(gateway.merged.hub.url) as hub, hub.transaction():
        hub.connection.execute(update(devices).values(code_expires=before))
    with pytest.raises(CodeRefused, match="expired"):
        gateway.register(code)


def is_known(client: GatewayClient) -> bool:
    """Return whether a token is in force: a device is refused what it asks for, a stranger everything."""
    try:
        client.ask("more", Envelope(MoreRequest(0, 0, 0)), More)
    except TokenRefused:
        return False
    except DownloadLost:
        return True
    raise AssertionError("it was answered")


def test_a_rotated_token_overlaps_with_the_next(gateway: Gateway) -> None:
    former = gateway.register(add(gateway), attempts=1)
    assert is_known(former)
    later = gateway.register(gateway.merged.merge.rotate_token("tablet"), attempts=1)
    assert [is_known(client) for client in (former, later, former)] == [True, True, True]
    with open_node(gateway.merged.hub.url) as hub, hub.transaction():
        hub.connection.execute(update(devices).values(former_expires=datetime.now(UTC)))
    assert [is_known(client) for client in (former, later)] == [False, True]


def test_a_revoked_device_is_refused_and_may_come_back(gateway: Gateway) -> None:
    client = gateway.register(add(gateway))
    merge = gateway.merged.merge
    merge.revoke_device("tablet")
    merge.revoke_device("tablet")
    with pytest.raises((DeviceRevoked, TokenRefused)):
        leave(client)
    leave(gateway.register(merge.rotate_token("tablet")))


def test_devices_are_listed_with_their_refusals(gateway: Gateway) -> None:
    client = gateway.register(add(gateway))
    add(gateway, "waiting")
    leave_with_wrong_secret(gateway, client)
    found = {one.name: one for one in gateway.merged.merge.list_devices(PUBLICATION)}
    assert found["waiting"].state == "added"
    assert found["waiting"].last_contact is None
    assert (found["tablet"].host_name, found["tablet"].refused) == ("north", 1)
    assert is_known(client)
    (tablet, _) = gateway.merged.merge.list_devices(PUBLICATION)
    assert (tablet.name, tablet.refused) == ("tablet", 0)


def leave_with_wrong_secret(gateway: Gateway, client: GatewayClient) -> None:
    wrong = client.token[:-1] + ("A" if client.token[-1] != "A" else "B")
    with pytest.raises(TokenRefused):
        leave(gateway.client(wrong))


def test_devices_that_cannot_be_added_are_refused(gateway: Gateway) -> None:
    merge = gateway.merged.merge
    add(gateway)
    with pytest.raises(DeviceExists):
        add(gateway)
    with pytest.raises(MergePublicationUnknown):
        merge.add_device("other", publication="none")
    with pytest.raises(PartitionValueMissing):
        merge.add_device("other", publication=PUBLICATION)
    with pytest.raises(HoursRefused):
        merge.add_device("other", publication=PUBLICATION, host_name="north", code_hours=0)
    for call in (merge.revoke_device, merge.rotate_token):
        with pytest.raises(DeviceUnknown):
            call("other")


def test_a_hub_without_devices_knows_no_token(gateway: Gateway) -> None:
    assert gateway.merged.merge.list_devices() == ()
    with pytest.raises(CodeRefused):
        gateway.register("01234-56789-ABCDE-FGHJK-MNPQR")
    with pytest.raises(TokenRefused):
        leave(gateway.client("rtd_0123456789_" + "A" * 43))
    with pytest.raises(TokenRefused, match="none was sent"):
        leave(gateway.client())


def test_strangers_and_pages_elsewhere_are_refused(gateway: Gateway) -> None:
    good = {"protocol": 1, "message": {"code": "x"}, "batches": [], "is_last": True}
    assert gateway.problem("register", good | {"protocol": 2}) == (400, "RT-8410")
    assert gateway.problem("register", good | {"host_name": "south"}) == (400, "RT-8411")
    assert gateway.problem("register", good, Origin="https://evil.example") == (403, "RT-8418")
    assert gateway.problem("nothing", good) == (404, "RT-8417")
    status, _, body = gateway.send("POST", "/other/register", b"{}")
    assert (status, json.loads(body)["code"]) == (404, "RT-8417")
    status, _, body = gateway.send("GET", f"/{HUB}/register")
    assert (status, json.loads(body)["code"]) == (405, "RT-8433")
    status, _, body = gateway.send("POST", f"/{HUB}/register", b"x" * 70_000)
    assert (status, json.loads(body)["code"]) == (413, "RT-8412")


def test_a_listed_origin_may_ask(gateway: Gateway) -> None:
    status, headers, _ = gateway.send("OPTIONS", f"/{HUB}/sync", headers={"Origin": ORIGIN})
    assert (status, headers["access-control-allow-origin"]) == (204, ORIGIN)
    status, headers, _ = gateway.send("POST", f"/{HUB}/logout", b"{}", {"Origin": ORIGIN})
    assert (status, headers["access-control-allow-origin"]) == (401, ORIGIN)


def test_a_device_that_asks_too_often_is_told_when_to_return(gateway: Gateway) -> None:
    client = gateway.client("rtd_0123456789_" + "A" * 43, attempts=1)
    for _ in range(30):
        with pytest.raises(TokenRefused):
            leave(client)
    token = {"Authorization": f"Bearer {client.token}"}
    # A request may be due every two seconds: on a slow machine some more are answered.
    sent = (gateway.send("POST", f"/{HUB}/logout", b"{}", token) for _ in range(300))
    status, headers, body = next(each for each in sent if each[0] != 401)
    assert (status, json.loads(body)["code"]) == (429, "RT-8413")
    assert int(headers["retry-after"]) >= 1


def test_health_and_readiness_are_answered(gateway: Gateway) -> None:
    assert gateway.send("GET", "/healthz")[0] == 200
    status, _, body = gateway.send("GET", "/readyz")
    assert (status, json.loads(body)) == (200, {"ready": True, "hubs": {HUB: True}})


def test_a_hub_is_ready_before_it_publishes(merged: Merge) -> None:
    nowhere = Hub("nowhere", "postgresql://127.0.0.1:1/nowhere")
    hubs = {HUB: Hub(HUB, merged.hub.url)}
    with serving_gateway(hubs, Address("127.0.0.1", 0), TlsOptions()) as address:
        served = Gateway(address, merged)
        status, _, body = served.send("GET", "/readyz")
        assert (status, json.loads(body)) == (200, {"ready": True, "hubs": {HUB: True}})
        with pytest.raises(CodeRefused):
            exchange(served.client(), "0123456789-" + "A" * 26, make_request_key())
    with serving_gateway(hubs | {"nowhere": nowhere}, Address("127.0.0.1", 0), TlsOptions()) as address:
        status, _, body = Gateway(address, merged).send("GET", "/readyz")
        assert (status, json.loads(body)) == (503, {"ready": False, "hubs": {HUB: True, "nowhere": False}})


def test_a_request_that_takes_too_long_is_answered(gateway: Gateway) -> None:
    token = {"Authorization": f"Bearer {gateway.add('tablet', host_name='north').token}"}
    leaving = write(Envelope(Done()))
    with serving_hub(gateway.merged, limits=GatewayLimits(request_s=0.3)) as hurried:
        with open_node(gateway.merged.hub.url) as hub, hub.transaction():
            locked = update(devices).values(refused=devices.c.refused).returning(devices.c.refused)
            assert hub.connection.execute(locked).all() == [(0,)]
            status, headers, body = hurried.send("POST", f"/{HUB}/logout", leaving, token)
            assert (status, json.loads(body)["code"]) == (503, "RT-8414"), body
            assert int(headers["retry-after"]) >= 1
        # Repeated, it is answered; what was asked for may have been done the first time.
        while (status := hurried.send("POST", f"/{HUB}/logout", leaving, token)[0]) == 503:
            pass
        assert status in (200, 401)


def test_an_address_with_many_wrong_tokens_is_told_to_wait(merged: Merge) -> None:
    merged.hub.execute(TABLE)
    merged.merge.add_publication(PUBLICATION)
    merged.merge.add_article(PUBLICATION, "item")
    with serving_hub(merged, limits=GatewayLimits(refusals_per_minute=2)) as served:
        known = served.add("tablet")
        assert is_known(known)
        wrong = {"Authorization": "Bearer rtd_0123456789_" + "A" * 43}
        answers = [served.send("POST", f"/{HUB}/logout", b"{}", wrong) for _ in range(3)]
        assert [status for status, _, _ in answers] == [401, 401, 429]
        assert int(answers[-1][1]["retry-after"]) >= 1
        assert served.send("POST", f"/{HUB}/logout", b"{}", wrong | {"X-Forwarded-For": "203.0.113.5"})[0] == 401
        assert is_known(known)


def test_a_device_learns_why_its_large_request_is_refused(gateway: Gateway) -> None:
    """A connection that is closed with bytes unread loses its answer."""
    body = bytes(20_000_000)
    headers = {"Authorization": "Bearer rtd_0123456789_" + "A" * 43}
    assert gateway.send("POST", f"/{HUB}/sync", body, headers)[0] == 401
    known = {"Authorization": f"Bearer {gateway.add('tablet', host_name='north').token}"}
    with serving_hub(gateway.merged, limits=GatewayLimits(body_bytes=10_000)) as small:
        assert small.send("POST", f"/{HUB}/sync", body, known)[0] == 413


def begin_slowly(gateway: Gateway, step: str, token: str = "") -> socket.socket:
    """Send the head of a request, and a byte of its body."""
    opened = socket.create_connection((gateway.address.host, gateway.address.port), timeout=20)
    said = f"Authorization: Bearer {token}\r\n" if token else ""
    opened.sendall(f"POST /{HUB}/{step} HTTP/1.1\r\nHost: x\r\n{said}Content-Length: 1000\r\n\r\n{{".encode())
    return opened


def test_strangers_that_send_slowly_keep_no_device_waiting(merged: Merge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "REST_S", 0.1)
    merged.hub.execute(TABLE)
    merged.merge.add_publication(PUBLICATION)
    merged.merge.add_article(PUBLICATION, "item")
    places = 4
    with serving_hub(merged, limits=GatewayLimits(sessions=1)) as served, ExitStack() as opened:
        known = served.add("tablet")
        assert is_known(known)
        for number in range(2 * places):
            made_up = f"rtd_{number:010}_" + "A" * 43
            for step in ("sync", "wait"):
                answer = opened.enter_context(begin_slowly(served, step, made_up)).recv(12)
                assert answer == b"HTTP/1.1 401"
        for _ in range(2 * places):
            opened.enter_context(begin_slowly(served, "register"))
        while served.send("POST", f"/{HUB}/register", b"{}")[0] != 503:
            pass
        assert is_known(known)


def test_a_device_that_waits_much_is_told_to_come_back(merged: Merge) -> None:
    merged.hub.execute(TABLE)
    merged.merge.add_publication(PUBLICATION)
    merged.merge.add_article(PUBLICATION, "item")
    with serving_hub(merged, limits=GatewayLimits(device_requests=1, requests_per_minute=10_000)) as served:
        client = served.add("tablet")
        assert is_known(client)
        token = {"Authorization": f"Bearer {client.token}"}
        long, short = (write(Envelope(Wait(2**40, wait_s))) for wait_s in (60.0, 0.0))
        sender = http.client.HTTPConnection(served.address.host, served.address.port, timeout=20)
        with closing(sender):
            sender.request("POST", f"/{HUB}/wait", long, token)
            while (answer := served.send("POST", f"/{HUB}/wait", short, token))[0] == 200:
                pass
        assert (answer[0], json.loads(answer[2])["code"]) == (429, "RT-8413")
        while served.send("POST", f"/{HUB}/wait", short, token)[0] == 429:
            pass


def test_a_gateway_serves_the_publications_that_it_is_told_to(merged: Merge) -> None:
    merged.hub.execute(TABLE)
    for name in (PUBLICATION, "second"):
        merged.merge.add_publication(name)
    merged.merge.add_article(PUBLICATION, "item")
    with serving_hub(merged, publications=("second",)) as served:
        with pytest.raises(PublicationNotServed):
            served.add("tablet")
        served.register(merged.merge.add_device("other", publication="second"))
