"""Operators act in the monitor: once, confirmed, by a form of their own session, through the operators' connection."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from urllib.parse import quote, urlencode
from uuid import uuid4

import psycopg
import pytest
from sqlalchemy.engine import make_url

from builders.capture.captured_databases import LoggedDatabase, wait_until
from builders.monitor.made_views import MadePolls, make_database, make_subscription
from builders.monitor.page_servers import Answer, PageServer, serving_pages
from builders.replication.replicated_databases import PUBLICATION
from fixtures.captured import open_logged
from fixtures.servers import fresh_database
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.events.catalogue import ActionEnded
from rowtide.events.event import Emitted, listening
from rowtide.handle import connect
from rowtide.monitor.labels import without_users
from rowtide.monitor.web import actions
from rowtide.monitor.web.access import COOKIE, Access, Operating
from rowtide.replication.subscription_settings import SyncType

ITEM = "create table item (id int primary key, name text)"
HOSTILE = "it's <script>alert(1)</script>"
OPERATOR, VIEWER = "anna-token-0123456789", "ben-token-01234567890"
SHOP = "/db/a%2Fshop"
POST_TOKEN = f"{SHOP}/act/replication/post-tracer-token?publication={PUBLICATION}"


@dataclass
class Acted:
    """A monitor of a publisher, which operators may act on."""

    server: PageServer
    publisher: LoggedDatabase
    subscriber: str
    tokens: dict[str, str]

    def sign_in(self, token: str = OPERATOR) -> str:
        answer = self.server.request("/sign-in", "POST", f"token={token}")
        assert answer.status == 303
        return answer.headers["set-cookie"].partition(";")[0]

    def get(self, path: str, cookie: str) -> Answer:
        return self.server.request(path, Cookie=cookie)

    def open_form(self, path: str, cookie: str) -> tuple[str, dict[str, str]]:
        """Open a confirmation by its link, and return its address and the hidden fields of its form."""
        led = self.get(path, cookie)
        assert led.status == 303, led.body
        page = self.get(led.headers["location"], cookie)
        assert page.status == 200, page.body
        found = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', page.body)
        return led.headers["location"], {name: unescape(value) for name, value in found}

    def send(self, path: str, cookie: str, form: dict[str, str], **headers: str) -> Answer:
        return self.server.request(path, "POST", urlencode(form), Cookie=cookie, **headers)

    def act(self, path: str, **fields: str) -> Answer:
        """Act as a browser does, and return the page that it is led to."""
        cookie = self.sign_in()
        at, form = self.open_form(path, cookie)
        answer = self.send(at, cookie, {**form, **fields})
        assert answer.status == 303, answer.body
        at = answer.headers["location"]
        wait_until(lambda: "hx-trigger" not in self.get(at, cookie).body, what="the action has ended")
        return self.get(at, cookie)

    def count_tokens(self) -> int:
        return len(connect(self.publisher.url).replication.list_tracer_tokens(PUBLICATION))

    def list_entries(self, token: str = VIEWER) -> list[dict[str, str]]:
        answer = self.server.request("/api/v1/databases/a%2Fshop/actions", Authorization=f"Bearer {token}")
        assert answer.status == 200
        found: list[dict[str, str]] = json.loads(answer.body)
        return found


@pytest.fixture(scope="module")
def acted(server: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Acted]:
    place = tmp_path_factory.mktemp("acted")
    tokens = {OPERATOR: "anna", VIEWER: "ben"}
    access = Access(read_tokens=lambda: tokens, operators=frozenset({"anna", "cleo"}))
    with fresh_database(server) as url, fresh_database(server) as copy, open_logged(url, place / "lake") as publisher:
        publisher.execute(ITEM)
        with psycopg.connect(copy, autocommit=True) as session:
            session.execute(ITEM)
        replication = connect(url).replication
        for publication in (PUBLICATION, HOSTILE):
            replication.add_publication(publication, lake=str(publisher.lake))
            replication.add_article(publication, "item") if publication == PUBLICATION else None
        replication.add_subscription(PUBLICATION, copy, sync_type=SyncType.REPLICATION_SUPPORT_ONLY)
        shown = make_database("a/shop", subscriptions=[make_subscription(PUBLICATION, without_users(copy))])
        read_only = make_url(url).update_query_dict({"options": "-c default_transaction_read_only=on"})
        operating = Operating(
            urls={"a/shop": url, "standby": read_only.render_as_string(hide_password=False), "removed": url},
            own_urls={"viewed": url},
            allows_actions=True,
        )
        polls = MadePolls([shown, make_database("standby"), make_database("viewed")])
        with serving_pages(place / "ring", polls, access, operating) as pages:
            yield Acted(pages, publisher, copy, tokens)


def test_a_token_is_posted_and_its_entry_shown(acted: Acted) -> None:
    before = acted.count_tokens()
    page = acted.act(POST_TOKEN)
    assert page.status == 200
    assert "is in the log." in page.body
    assert acted.count_tokens() == before + 1
    listed = acted.list_entries()[0]
    assert (listed["action"], listed["subject"]) == ("replication post-tracer-token", PUBLICATION)
    assert (listed["actor"], listed["channel"], listed["outcome"]) == ("anna", "web", "done")
    assert "post-tracer-token" in acted.get(f"{SHOP}/audit", acted.sign_in(VIEWER)).body


def test_a_form_sent_twice_acts_once(acted: Acted) -> None:
    """A double click, and going back and sending the form again."""
    cookie, before, counted = acted.sign_in(), acted.count_tokens(), count_done(acted)
    at, form = acted.open_form(POST_TOKEN, cookie)
    answers: list[Answer] = []
    threads = [threading.Thread(target=lambda: answers.append(acted.send(at, cookie, form))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    answers.append(acted.send(at, cookie, form))
    assert {(one.status, one.headers["location"]) for one in answers} == {(303, f"{SHOP}/audit/{at[-36:]}")}
    assert (acted.count_tokens(), count_done(acted)) == (before + 1, counted + 1)


def count_done(acted: Acted) -> float:
    """Return how many tracer tokens the monitor says that it has posted."""
    body = acted.server.request("/metrics", Authorization=f"Bearer {VIEWER}").body
    series = 'rowtide_actions_total{action="replication post-tracer-token",database="a/shop",result="done"} '
    return sum(float(line.removeprefix(series)) for line in body.splitlines() if line.startswith(series))


def test_an_action_that_ends_is_an_event(acted: Acted) -> None:
    reported: list[Emitted] = []
    with listening(reported.append):
        acted.act(f"{SHOP}/act/cdc/stop-job?job=capture")
    (ended,) = [one.event for one in reported if isinstance(one.event, ActionEnded)]
    assert (ended.database, ended.action, ended.actor, ended.outcome) == ("a/shop", "cdc stop-job", "anna", "failed")
    assert ended.code.startswith("RT-")


def test_a_subscription_is_paused_and_resumed(acted: Acted) -> None:
    arguments = urlencode({"publication": PUBLICATION, "subscriber": without_users(acted.subscriber)})
    assert "Paused." in acted.act(f"{SHOP}/act/replication/pause?{arguments}").body
    (subscription,) = connect(acted.publisher.url).replication.list_subscriptions()
    assert subscription.state == "paused"
    assert "Resumed." in acted.act(f"{SHOP}/act/replication/resume?{arguments}").body
    (subscription,) = connect(acted.publisher.url).replication.list_subscriptions()
    assert subscription.state != "paused"


def test_an_error_of_an_action_is_its_result(acted: Acted) -> None:
    page = acted.act(f"{SHOP}/act/cdc/stop-job?job=capture")
    assert 'class="failing notice"' in page.body
    assert re.search(r'href="/manual/RT-\d+"', page.body)
    # What an error says may be for operators alone, and nobody reads the users of URLs.
    assert re.fullmatch(r"RT-\d+", acted.list_entries()[0]["result"])
    assert len(acted.list_entries(OPERATOR)[0]["result"]) > len("RT-12345")
    secret = connect(acted.publisher.url).actions.perform(
        "replication pause", {"publication": PUBLICATION, "subscriber": "postgresql://eve@db9/x"}, actor="eve"
    )
    assert secret is not None
    assert "eve@" in secret.subject
    assert "eve@" not in acted.get(f"{SHOP}/audit", acted.sign_in()).body
    assert "eve@" not in acted.get(f"{SHOP}/audit/{secret.action_id}", acted.sign_in()).body


def test_a_reinitialization_takes_the_name(acted: Acted) -> None:
    cookie = acted.sign_in()
    path = f"{SHOP}/act/replication/reinitialize?publication={PUBLICATION}"
    at, form = acted.open_form(path, cookie)
    for typed in ({}, {"typed": "other"}):
        answer = acted.send(at, cookie, {**form, **typed})
        assert (answer.status, "nothing was done" in answer.body) == (400, True)
    assert all(one["action_id"] != at[-36:] for one in acted.list_entries())
    assert acted.send(at, cookie, {**form, "typed": PUBLICATION}).status == 303
    # The answer may come before the end, of an action that takes long.
    wait_until(lambda: acted.list_entries()[0]["outcome"] == "done", what="it has ended")


def test_forms_of_others_do_nothing(acted: Acted) -> None:
    cookie, before = acted.sign_in(), acted.list_entries()
    at, form = acted.open_form(POST_TOKEN, cookie)
    _, of_another_session = acted.open_form(POST_TOKEN, acted.sign_in())
    assert acted.send(at, cookie, {}).status == 403
    assert acted.send(at, cookie, {**form, "csrf": "0" * 64}).status == 403
    # Sessions that begin in the same instant have the same cookie.
    if of_another_session["csrf"] != form["csrf"]:
        assert acted.send(at, cookie, of_another_session).status == 403
    assert acted.send(at, cookie, form, Origin="https://evil.example.com").status == 403
    assert acted.send(at, cookie, form, **{"Sec-Fetch-Site": "cross-site"}).status == 403
    assert acted.list_entries() == before


def test_viewers_do_nothing(acted: Acted) -> None:
    before = acted.list_entries()
    at, operators_form = acted.open_form(POST_TOKEN, acted.sign_in())
    viewer = acted.sign_in(VIEWER)
    assert acted.get(POST_TOKEN, viewer).status == 403
    assert acted.send(at, viewer, operators_form).status == 403
    assert acted.server.request(at, "POST", urlencode(operators_form), Accept="*/*").status == 401
    assert acted.list_entries() == before


def test_a_get_never_acts(acted: Acted) -> None:
    cookie, before = acted.sign_in(), acted.list_entries()
    at, form = acted.open_form(POST_TOKEN, cookie)
    assert acted.get(f"{at}&{urlencode(form)}", cookie).status == 200
    assert acted.list_entries() == before


def test_a_session_may_end_before_its_form_is_sent(acted: Acted) -> None:
    acted.tokens["cleo-token-0123456789"] = "cleo"
    cookie = acted.sign_in("cleo-token-0123456789")
    at, form = acted.open_form(POST_TOKEN, cookie)
    before = acted.list_entries()
    del acted.tokens["cleo-token-0123456789"]
    answer = acted.send(at, cookie, form)
    assert answer.status == 303
    assert answer.headers["location"] == f"/sign-in?next={quote(at)}"
    assert acted.list_entries() == before


def test_databases_that_cannot_be_acted_on_say_why(acted: Acted) -> None:
    cookie, before = acted.sign_in(), acted.count_tokens()
    path = POST_TOKEN.replace("a%2Fshop", "standby")
    at, form = acted.open_form(path, cookie)
    answer = acted.send(at, cookie, form)
    assert (answer.status, "RT-1226" in answer.body) == (409, True)
    path = POST_TOKEN.replace("a%2Fshop", "viewed")
    at, form = acted.open_form(path, cookie)
    answer = acted.send(at, cookie, form)
    assert (answer.status, "operator_url" in answer.body) == (409, True)
    # The audit is read by the monitor's own connection.
    assert "post-tracer-token" in acted.get("/db/viewed/audit", cookie).body
    # It is in the configuration file no more, but its form is still open.
    at, form = acted.open_form(POST_TOKEN, cookie)
    assert acted.send(at.replace("a%2Fshop", "removed"), cookie, form).status == 404
    assert acted.count_tokens() == before


def test_a_hostile_name_is_text(acted: Acted) -> None:
    path = f"{SHOP}/act/replication/post-tracer-token?{urlencode({'publication': HOSTILE})}"
    at, _ = acted.open_form(path, acted.sign_in())
    assert "<script>alert" not in acted.get(at, acted.sign_in()).body
    acted.act(path)
    assert acted.list_entries()[0]["subject"] == HOSTILE
    assert "<script>alert" not in acted.get(f"{SHOP}/audit", acted.sign_in()).body


def test_two_operators_have_an_entry_each(acted: Acted) -> None:
    acted.tokens["cleo-token-0123456789"] = "cleo"
    cookies = [acted.sign_in(), acted.sign_in("cleo-token-0123456789")]
    forms = [acted.open_form(POST_TOKEN, cookie) for cookie in cookies]
    before = acted.count_tokens()
    threads = [
        threading.Thread(target=acted.send, args=(at, cookie, form))
        for cookie, (at, form) in zip(cookies, forms, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert acted.count_tokens() == before + 2
    assert {one["actor"] for one in acted.list_entries()[:2]} == {"anna", "cleo"}


def test_programs_act_with_a_key_once(acted: Acted) -> None:
    body = json.dumps({"action": "replication post-tracer-token", "arguments": {"publication": PUBLICATION}})
    headers = {
        "Authorization": f"Bearer {OPERATOR}",
        "Content_Type": "application/json",
        "Idempotency_Key": str(uuid4()),
        "Accept": "application/json",
    }

    def post(body: str = body, **other: str) -> Answer:
        return acted.server.request("/api/v1/databases/a%2Fshop/actions", "POST", body, **{**headers, **other})

    before = acted.count_tokens()
    first, again = post(), post()
    assert first.status == 200, first.body
    assert first.body == again.body
    assert acted.count_tokens() == before + 1
    other = json.dumps({"action": "replication pause", "arguments": {"publication": PUBLICATION}})
    assert post(other).status == 409
    assert post("[]", Idempotency_Key=str(uuid4())).status == 400
    assert post(json.dumps({"action": "drop everything"}), Idempotency_Key=str(uuid4())).status == 400
    assert post(Idempotency_Key="no-uuid").status == 400
    assert post(Authorization=f"Bearer {VIEWER}").status == 403
    assert post(Content_Type="text/plain").status == 415
    assert post(Sec_Fetch_Site="cross-site").status == 415
    assert acted.count_tokens() == before + 1


def test_an_action_that_takes_long_is_shown_while_it_runs(acted: Acted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actions, "_PATIENCE_S", 0.05)
    cookie = acted.sign_in()
    at, form = acted.open_form(f"{SHOP}/act/replication/resume?publication={PUBLICATION}", cookie)
    with acted.publisher.transaction() as session:
        session.execute('lock table distribution."MSsubscriptions", distribution."MSdistribution_agents"')
        answer = acted.send(at, cookie, form)
        assert answer.status == 303
        wait_until(lambda: "It runs." in acted.get(answer.headers["location"], cookie).body, what="it runs")
        assert 'hx-trigger="every 15s"' in acted.get(answer.headers["location"], cookie).body
        # Asked for again meanwhile, it is the same one.
        assert acted.send(at, cookie, form).headers["location"] == answer.headers["location"]
    wait_until(lambda: "Resumed." in acted.get(answer.headers["location"], cookie).body, what="it has ended")
    assert sum(one["action_id"] == at[-36:] for one in acted.list_entries()) == 1


def test_nothing_acts_where_actions_are_not_allowed(tmp_path: Path) -> None:
    access = Access(read_tokens=lambda: {OPERATOR: "anna"}, operators=frozenset({"anna"}))
    with serving_pages(tmp_path, MadePolls([make_database("a/shop")]), access) as pages:
        cookie = pages.request("/sign-in", "POST", f"token={OPERATOR}").headers["set-cookie"].partition(";")[0]
        assert cookie.startswith(COOKIE)
        assert pages.request(POST_TOKEN, Cookie=cookie).status == 403
        assert pages.request(POST_TOKEN, "POST", "csrf=", Cookie=cookie).status == 403
