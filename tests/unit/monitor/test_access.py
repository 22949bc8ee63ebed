"""Who may look at the monitor, by what requests say."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from starlette.datastructures import Headers

from rowtide.core.errors import RowtideError
from rowtide.databases.passwords import PasswordFileNotPrivate
from rowtide.monitor.errors import AccessOpen, NetworkInvalid, TokenFileInvalid, TokenFileNotRead
from rowtide.monitor.web.access import (
    ANYBODY,
    COOKIE,
    OPEN,
    Access,
    AccessOptions,
    Role,
    TokenFile,
    Viewer,
    make_access,
    parse_network,
    parse_tokens,
    require_closed,
)

ANNA, BEN = "anna-token-0123456789", "ben-token-0123456789"
TOKENS = {ANNA: "anna", BEN: "ben"}


def given(**headers: str) -> Headers:
    return Headers({name.replace("_", "-"): value for name, value in headers.items()})


def test_without_tokens_everybody_is_a_viewer() -> None:
    assert OPEN.find_viewer("10.0.0.1", given(authorization="Bearer x")) is ANYBODY
    assert ANYBODY.role is Role.VIEWER


def test_a_token_names_who_asks() -> None:
    access = Access(read_tokens=lambda: TOKENS, operators=frozenset({"ben"}))
    assert access.find_viewer("10.0.0.1", given(authorization=f"Bearer {ANNA}")) == Viewer("anna", Role.VIEWER)
    assert access.find_viewer("10.0.0.1", given(authorization=f"bearer {BEN}")) == Viewer("ben", Role.OPERATOR)
    for wrong in ("", "Bearer", "Bearer ", f"Basic {ANNA}", f"Bearer {ANNA}x", "Bearer ä", "Bearer anna"):
        assert access.find_viewer("10.0.0.1", given(authorization=wrong)) is None


def test_a_session_ends_with_its_token(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = dict(TOKENS)
    access = Access(read_tokens=lambda: tokens)
    assert access.begin_session("no-token-0123456789") is None
    cookie = access.begin_session(ANNA)
    assert cookie is not None
    assert ANNA not in cookie
    asks = given(cookie=f"theme=dark; {COOKIE}={cookie}")
    assert access.find_viewer(None, asks) == Viewer("anna")

    del tokens[ANNA]
    assert access.find_viewer(None, asks) is None
    tokens["anna-token-that-is-new"] = "anna"
    assert access.find_viewer(None, asks) is None

    tokens[ANNA] = "carl"
    assert access.find_viewer(None, asks) is None, "the token is another person's now"

    tokens[ANNA] = "anna"
    begun = time.time()
    monkeypatch.setattr("rowtide.monitor.web.access.time.time", lambda: begun + 13 * 3600)
    assert access.find_viewer(None, asks) is None


@pytest.mark.parametrize("cookie", ["", "x", "a.b", "....", "=.=", "\u00e4", "W10=.W10=", "é" * 9])
def test_a_cookie_that_nobody_signed_is_nobodys(cookie: str) -> None:
    access = Access(read_tokens=lambda: TOKENS)
    assert access.find_viewer(None, given(cookie=f"{COOKIE}={cookie}")) is None


def test_a_header_is_believed_from_proxies_alone() -> None:
    access = Access(
        user_header="X-Forwarded-User",
        trusted_proxies=(parse_network("10.0.0.0/8"), parse_network("fd00::1")),
        operators=frozenset({"anna"}),
    )
    asks = given(x_forwarded_user="anna")
    for proxy in ("10.1.2.3", "fd00::1", "::ffff:10.1.2.3"):
        assert access.find_viewer(proxy, asks) == Viewer("anna", Role.OPERATOR)
    for other in ("127.0.0.1", "11.0.0.1", "fd00::2", None, "testclient"):
        assert access.find_viewer(other, asks) is None
    assert access.find_viewer("10.1.2.3", given()) is None
    twice = Headers(raw=[(b"x-forwarded-user", b"anna"), (b"x-forwarded-user", b"ben")])
    assert access.find_viewer("10.1.2.3", twice) is None


@pytest.mark.parametrize(
    ("host", "is_allowed"),
    [
        ("127.0.0.1:8080", True),
        ("[::1]:8080", True),
        ("localhost", True),
        ("LOCALHOST:1", True),
        ("10.1.2.3", True),
        ("monitor.example.com", True),
        ("evil.example.com", False),
        ("127.0.0.1.evil.example.com:8080", False),
        ("localhost.evil.example.com", False),
        ("", False),
    ],
)
def test_a_host_is_an_address_or_a_name_of_ours(host: str, *, is_allowed: bool) -> None:
    assert Access(hosts=frozenset({"monitor.example.com"})).allows_host(host) is is_allowed


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "monitor.example.com"])
def test_what_others_reach_asks_who_they_are(host: str) -> None:
    with pytest.raises(AccessOpen, match="nobody is asked for a token"):
        require_closed(OPEN, host)
    require_closed(Access(read_tokens=lambda: TOKENS), host)
    with pytest.raises(AccessOpen, match="believes every client"):
        require_closed(Access(user_header="X-Forwarded-User"), host)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_loopback_may_be_open(host: str) -> None:
    require_closed(OPEN, host)
    with pytest.raises(AccessOpen, match="believes every client"):
        require_closed(Access(user_header="X-Forwarded-User"), host)


@pytest.mark.parametrize("text", ["", "proxy", "10.0.0.1/8", "10.0.0.0/33"])
def test_a_text_that_is_no_network_is_refused(text: str) -> None:
    with pytest.raises(NetworkInvalid, match="is no network"):
        parse_network(text)


def test_a_file_has_a_name_and_a_token_a_line() -> None:
    assert parse_tokens("f", f"# who\n\nanna {ANNA} operator\n ben\t{BEN} \n") == (TOKENS, frozenset({"anna"}))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "there is no token"),
        ("# only this\n", "there is no token"),
        ("anna\n", "line 1 .* is not NAME TOKEN"),
        (f"anna {ANNA}\nben {BEN} x\n", "line 2 .* is not NAME TOKEN"),
        ("anna short\n", "fewer than 16 characters"),
        (f"anna {ANNA}\nben {ANNA}\n", "stands there twice"),
    ],
)
def test_a_file_that_is_none_is_refused_without_tokens(text: str, reason: str) -> None:
    with pytest.raises(TokenFileInvalid, match=reason) as raised:
        parse_tokens("tokens", text)
    assert ANNA not in str(raised.value)
    assert "short" not in str(raised.value)


def test_a_file_that_changes_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text(f"anna {ANNA}\n")
    path.chmod(0o600)
    tokens = TokenFile(str(path))
    assert tokens.read() == {ANNA: "anna"}
    access = make_access(AccessOptions(token_file=str(path)), None)
    bearer = given(authorization=f"Bearer {BEN}")
    for line, role in ((f"ben {BEN} operator\n", Role.OPERATOR), (f"ben {BEN}\n", Role.VIEWER)):
        path.with_suffix(".new").write_text(line)
        path.with_suffix(".new").chmod(0o600)
        os.replace(path.with_suffix(".new"), path)
        assert tokens.read() == {BEN: "ben"}
        assert access.find_viewer(None, bearer) == Viewer("ben", role)
    path.unlink()
    with pytest.raises(TokenFileNotRead, match=f"the file of tokens {path} cannot be read: No such file") as raised:
        tokens.read()
    assert "password" not in str(raised.value)


def test_a_file_that_others_may_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text(f"anna {ANNA}\n")
    path.chmod(0o644)
    with pytest.raises(PasswordFileNotPrivate):
        make_access(AccessOptions(token_file=str(path)), None)


def test_options_say_who_may_look(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text(f"anna {ANNA}\n")
    path.chmod(0o600)
    options = AccessOptions(
        token_file=str(path),
        auth_header="X-User",
        trusted_proxies=("10.0.0.1",),
        operators=("anna",),
        hosts=("Monitor.Example.com",),
    )
    access = make_access(options, None)
    assert access.find_viewer("10.0.0.1", given(x_user="ben")) == Viewer("ben", Role.VIEWER)
    assert access.find_viewer("10.0.0.2", given(authorization=f"Bearer {ANNA}")) == Viewer("anna", Role.OPERATOR)
    assert access.allows_host("monitor.example.com:443")
    assert make_access(AccessOptions(), None) == OPEN
    with pytest.raises(RowtideError, match="absent cannot be read: No such file"):
        make_access(AccessOptions(token_file=str(tmp_path / "absent")), None)
