"""Authentication and authorisation of the monitor: tokens, roles, hosts, operators' connections.

On loopback without tokens everybody is a viewer: any local user may open a port, so nothing that only some may see or
do is there then. A session of a browser is signed with its token as the key, so that one ends with its token. Operators
act and see values of rows through connections of their own.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import json
import os
import socket
import threading
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import field
from enum import StrEnum
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING, Annotated

from rowtide.actions.entries import ActionKind
from rowtide.core.options import Option
from rowtide.core.values import frozen
from rowtide.databases.passwords import FilePassword, PasswordNotRead, PasswordSource
from rowtide.listening import LOCAL_NAMES, is_loopback, read_bearer
from rowtide.monitor.errors import (
    AccessOpen,
    ActionsOpen,
    NetworkInvalid,
    OperatorUrlMissing,
    SubscriberUnclear,
    TokenFileInvalid,
    TokenFileNotRead,
)
from rowtide.monitor.labels import without_users

if TYPE_CHECKING:
    from starlette.datastructures import Headers


COOKIE = "rowtide_session"
SESSION_S = 12 * 3600.0
CONTENT_SECURITY_POLICY = (
    "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
"""A page loads what the monitor serves and nothing else; no script and no style stands in a page."""
SECURITY_HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


Tokens = Mapping[str, str]
"""The valid tokens, with the names of their holders."""


class Role(StrEnum):
    """Roles of viewers: an operator may see values of rows and act, where that is allowed at all."""

    VIEWER = "viewer"
    OPERATOR = "operator"


@frozen
class Viewer:
    """A person or program; `name` is None without authentication."""

    name: str | None
    role: Role = Role.VIEWER


ANYBODY = Viewer(None)


@frozen(kw_only=True)
class AccessOptions:
    """Options of authentication."""

    token_file: Annotated[
        str | None,
        Option(
            metavar="FILE",
            help="Ask who looks: the file has a line `NAME TOKEN` for each person or program, `NAME TOKEN operator` "
            "for one who may act, and is read again when it changes.",
        ),
    ] = None
    auth_header: Annotated[
        str | None,
        Option(
            metavar="NAME",
            help="The header in which a proxy that has asked names the user, such as X-Forwarded-User.",
        ),
    ] = None
    trusted_proxies: Annotated[
        tuple[str, ...],
        Option(
            "--trusted-proxy",
            metavar="NETWORK",
            help="The proxy whose header is believed: its address, or its network. May be repeated.",
        ),
    ] = ()
    operators: Annotated[
        tuple[str, ...],
        Option(metavar="NAME", help="A user, or a name of the token file, who may act. May be repeated."),
    ] = ()
    allow_actions: Annotated[
        bool,
        Option(
            "--allow-actions",
            help="Let operators act, through each database's operator_url: pause, resume, validate, reinitialize, "
            "start and stop jobs, decide about conflicts. Asks everybody who they are, on this machine, too.",
        ),
    ] = False
    show_values: Annotated[
        bool,
        Option("--show-values", help="Show values of rows to operators, read through each database's operator_url."),
    ] = False
    hosts: Annotated[
        tuple[str, ...],
        Option(
            "--host",
            metavar="NAME",
            help="A name by which browsers reach the monitor, besides addresses and this machine's name. May be "
            "repeated.",
        ),
    ] = ()


@frozen(kw_only=True)
class Access:
    """Authenticates viewers. A user that a proxy names in `user_header` is accepted only from `trusted_proxies`."""

    read_tokens: Callable[[], Tokens] | None = None
    user_header: str | None = None
    trusted_proxies: tuple[Network, ...] = ()
    operators: frozenset[str] = frozenset()
    read_operators: Callable[[], frozenset[str]] = frozenset
    """Returns the operators of the token file, who add to `operators`."""
    hosts: frozenset[str] = frozenset()
    """Names by which browsers reach the monitor, besides addresses and this machine's names."""

    @property
    def asks_who(self) -> bool:
        """Whether viewers have to authenticate."""
        return self.read_tokens is not None or self.user_header is not None

    def find_viewer(self, client: str | None, headers: Headers) -> Viewer | None:
        """Authenticate a request by the address of its connection and its headers; None if it fails."""
        if not self.asks_who:
            return ANYBODY
        users = headers.getlist(self.user_header) if self.user_header is not None else ()
        # With two headers, a proxy has added its own to one that the client sent, which anybody could forge.
        if len(users) == 1 and users[0] and client is not None and is_within(client, self.trusted_proxies):
            return self._as_viewer(users[0])
        tokens = self.read_tokens() if self.read_tokens is not None else {}
        given = read_bearer(headers.get("authorization", ""))
        name = _find_token(given, tokens) or _find_session(headers.get("cookie", ""), tokens)
        return self._as_viewer(name) if name is not None else None

    def begin_session(self, token: str) -> str | None:
        """Return the session cookie for a token; None if the token is not valid."""
        tokens = self.read_tokens() if self.read_tokens is not None else {}
        name = _find_token(token.strip(), tokens)
        if name is None:
            return None
        return _sign(json.dumps([name, time.time() + SESSION_S]).encode(), token)

    def allows_host(self, host: str) -> bool:
        """Return whether a request's Host header names this monitor, against DNS rebinding."""
        name = _without_port(host).lower()
        if name in LOCAL_NAMES or name in self.hosts:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return name in {socket.gethostname().lower(), socket.getfqdn().lower()}
        return True

    def _as_viewer(self, name: str) -> Viewer:
        is_operator = name in self.operators or name in self.read_operators()
        return Viewer(name, Role.OPERATOR if is_operator else Role.VIEWER)


OPEN = Access()
"""No authentication."""


def require_closed(access: Access, host: str) -> None:
    """Require authentication of a monitor that other machines reach. Raises `AccessOpen`."""
    if access.user_header is not None and not access.trusted_proxies:
        raise AccessOpen(host, "--auth-header believes every client that sends it")
    if not access.asks_who and not is_loopback(host):
        raise AccessOpen(host, "nobody is asked for a token")


def parse_network(text: str) -> Network:
    """Return a network of proxies, or the one of an address. Raises `NetworkInvalid`."""
    try:
        return ipaddress.ip_network(text)
    except ValueError as error:
        raise NetworkInvalid(text, str(error)) from error


def is_within(client: str, networks: Collection[Network]) -> bool:
    """Return whether an address belongs to one of some networks."""
    try:
        address = ipaddress.ip_address(client)
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return any(address.version == network.version and address in network for network in networks)


def _find_token(given: str, tokens: Tokens) -> str | None:
    found = None
    # Every token is compared, in constant time: the time of an answer says nothing about a token.
    for token, name in tokens.items():
        if hmac.compare_digest(token.encode(), given.encode()):
            found = name
    return found


def _find_session(cookies: str, tokens: Tokens) -> str | None:
    try:
        given = SimpleCookie(cookies).get(COOKIE)
    except CookieError:
        return None
    if given is None:
        return None
    for token, name in tokens.items():
        content = _verify(given.value, token)
        if content is not None:
            named, until = json.loads(content)
            return name if named == name and time.time() < until else None
    return None


def _sign(content: bytes, token: str) -> str:
    return b".".join(map(urlsafe_b64encode, (content, _digest(content, token)))).decode()


def _verify(signed: str, token: str) -> bytes | None:
    """Return the content that was signed with a token; None if it was not."""
    first, _, second = signed.partition(".")
    try:
        content, digest = urlsafe_b64decode(first), urlsafe_b64decode(second)
    except ValueError:
        return None
    return content if hmac.compare_digest(digest, _digest(content, token)) else None


def _digest(content: bytes, token: str) -> bytes:
    return hmac.digest(hashlib.sha256(token.encode()).digest(), b"rowtide session\0" + content, "sha256")


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] if host.count(":") == 1 else host


SHORTEST_TOKEN = 16
"""Shorter tokens could be guessed."""
_OPERATOR = Role.OPERATOR.value


def make_access(options: AccessOptions, auth: PasswordSource | None) -> Access:
    """Return the authentication of options, or by the one token that the configuration file may have instead of a file.

    Raises what `TokenFile.read` raises, `PasswordNotRead`, `NetworkInvalid`.
    """
    read_tokens: Callable[[], Tokens] | None = None
    read_operators: Callable[[], frozenset[str]] = frozenset
    if options.token_file is not None:
        file = TokenFile(options.token_file)
        read_tokens, read_operators = file.read, file.read_operators
        read_tokens()
    elif auth is not None:
        read_tokens = {auth.read(): "token"}.copy
    return Access(
        read_tokens=read_tokens,
        user_header=options.auth_header,
        trusted_proxies=tuple(map(parse_network, options.trusted_proxies)),
        operators=frozenset(options.operators),
        read_operators=read_operators,
        hosts=frozenset(name.lower() for name in options.hosts),
    )


class TokenFile:
    """A token file, read again when it changes."""

    def __init__(self, path: str) -> None:
        self._file = FilePassword(path)
        self._read_of: tuple[int, int, int] | None = None
        self._tokens: Tokens = {}
        self._operators: frozenset[str] = frozenset()
        self._reading = threading.Lock()

    def read(self) -> Tokens:
        """Return the tokens in force.

        Raises `TokenFileNotRead`, `PasswordFileNotPrivate` of any file that others may read, and `TokenFileInvalid`.
        """
        with self._reading:
            state = self._state()
            if state is None or state != self._read_of:
                # The state was taken before the file is read: if it changes in between, it is read once more.
                self._tokens, self._operators = parse_tokens(self._file.path, self._read_text())
                self._read_of = state
            return self._tokens

    def read_operators(self) -> frozenset[str]:
        """Return the names of the operators in force. Raises as `read`."""
        self.read()
        return self._operators

    def _read_text(self) -> str:
        try:
            return self._file.read_all().decode("utf-8", "replace")
        except PasswordNotRead as error:
            raise TokenFileNotRead(self._file.path, error.reason) from error

    def _state(self) -> tuple[int, int, int] | None:
        try:
            found = os.stat(self._file.path)
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size


def parse_tokens(path: str, text: str) -> tuple[Tokens, frozenset[str]]:
    """Parse the tokens of a file, and its operators: a line `NAME TOKEN [operator]` each; # begins a comment.

    Raises `TokenFileInvalid`, which quotes no token.
    """
    tokens: dict[str, str] = {}
    operators: set[str] = set()
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) not in (2, 3) or words[2:] not in ([], [_OPERATOR]):
            raise TokenFileInvalid(path, number, f"it is not NAME TOKEN, or NAME TOKEN {_OPERATOR}")
        name, token = words[:2]
        if len(token) < SHORTEST_TOKEN:
            raise TokenFileInvalid(path, number, f"its token has fewer than {SHORTEST_TOKEN} characters")
        if token in tokens:
            raise TokenFileInvalid(path, number, "its token stands there twice")
        tokens[token] = name
        operators |= {name} if words[2:] else set()
    if not tokens:
        raise TokenFileInvalid(path, 1, "there is no token")
    return tokens, frozenset(operators)


HIDDEN_VALUE = "•••"


@frozen(kw_only=True)
class Operating:
    """Whether operators may act and see values of rows, and over which URLs: never over the monitor's own."""

    urls: Mapping[str, str] = field(default_factory=dict)
    """By the names of databases: `operator_url` of the configuration file."""
    own_urls: Mapping[str, str] = field(default_factory=dict)
    """By the names of databases: the monitor's own, through which the audit is read where operators have none."""
    audit_days: Mapping[str, int] = field(default_factory=dict)
    """By the names of databases: how long the audit keeps entries, where that is not the default."""
    allows_actions: bool = False
    shows_values: bool = False

    def may_act(self, viewer: Viewer | None) -> bool:
        """Return whether a viewer may act."""
        return self.allows_actions and _is_operator(viewer)

    def sees_values(self, viewer: Viewer | None) -> bool:
        """Return whether a viewer sees values of rows, where they can be read at all; else `HIDDEN_VALUE`."""
        return self.shows_values and _is_operator(viewer)

    def find_reading_url(self, name: str) -> str | None:
        """Return the URL through which the audit of a database is read."""
        return self.urls.get(name, self.own_urls.get(name))

    def get_url(self, name: str) -> str:
        """Return the URL through which operators act on a database. Raises `OperatorUrlMissing`."""
        if name not in self.urls:
            raise OperatorUrlMissing(name)
        return self.urls[name]


NOBODY_OPERATES = Operating()


def require_asked(access: Access, operating: Operating) -> None:
    """Require authentication of a monitor that allows actions. Raises `ActionsOpen`."""
    if not operating.allows_actions:
        return
    if not access.asks_who:
        raise ActionsOpen("it asks nobody for a token, and any local user may open its port")
    if not (access.operators or access.read_operators()):
        raise ActionsOpen("nobody is an operator")


def find_subscriber(url: str, kind: ActionKind, publication: str, shown: str) -> str:
    """Return a subscriber's URL by the name that pages have for it. Raises `SubscriberUnclear`."""
    urls = dict.fromkeys(_list_subscribers(url, kind, publication))
    found = [one for one in urls if shown in (one, without_users(one))]
    if len(found) != 1:
        raise SubscriberUnclear(shown, publication, len(found))
    return found[0]


def _list_subscribers(url: str, kind: ActionKind, publication: str) -> Iterable[str]:
    if kind in (ActionKind.VALIDATE_MERGE, ActionKind.REINITIALIZE_MERGE):
        from rowtide.merge.api import MergeReplication

        return (one.subscriber for one in MergeReplication(url).status(publication) if one.subscriber is not None)
    from rowtide.replication.api import TransactionalReplication

    return (one.subscriber for one in TransactionalReplication(url).list_subscriptions(publication))


def _is_operator(viewer: Viewer | None) -> bool:
    return viewer is not None and viewer.role is Role.OPERATOR
