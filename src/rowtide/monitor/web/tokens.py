"""The file of tokens by which people and programs say who they are; it may be replaced at any time."""

from __future__ import annotations

import os
import threading

from rowtide.databases.passwords import FilePassword, PasswordSource
from rowtide.monitor.errors import TokenFileInvalid
from rowtide.monitor.web.access import Access, AccessOptions, Tokens, parse_network

SHORTEST_TOKEN = 16
"""A token that can be guessed is none."""


def make_access(options: AccessOptions, auth: PasswordSource | None) -> Access:
    """Return who may look, by options, and by the one token that the configuration file may have instead of a file.

    Raises what `TokenFile.read` raises, `PasswordNotRead`, `NetworkInvalid`.
    """
    read_tokens = None
    if options.token_file is not None:
        read_tokens = TokenFile(options.token_file).read
        read_tokens()
    elif auth is not None:
        read_tokens = {auth.read(): "token"}.copy
    return Access(
        read_tokens=read_tokens,
        user_header=options.auth_header,
        trusted_proxies=tuple(map(parse_network, options.trusted_proxies)),
        operators=frozenset(options.operators),
        hosts=frozenset(name.lower() for name in options.hosts),
    )


class TokenFile:
    """A file of tokens; what it has is read again when it was written again."""

    def __init__(self, path: str) -> None:
        self._file = FilePassword(path)
        self._read_of: tuple[int, int, int] | None = None
        self._tokens: Tokens = {}
        self._reading = threading.Lock()

    def read(self) -> Tokens:
        """Return the tokens in force.

        Raises `PasswordNotRead` and `PasswordFileNotPrivate`, of any file that others may read, and `TokenFileInvalid`.
        """
        with self._reading:
            state = self._state()
            if state is None or state != self._read_of:
                # The file is read before it is known to be the one of this state: at worst it is read once more.
                self._tokens = parse_tokens(self._file.path, self._file.read_all().decode("utf-8", "replace"))
                self._read_of = state
            return self._tokens

    def _state(self) -> tuple[int, int, int] | None:
        try:
            found = os.stat(self._file.path)
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size


def parse_tokens(path: str, text: str) -> Tokens:
    """Return the tokens of a file: a line `NAME TOKEN` each; empty lines and # lines say nothing.

    Raises `TokenFileInvalid`, which has no token.
    """
    tokens: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) != 2:
            raise TokenFileInvalid(path, number, "it is not NAME TOKEN")
        name, token = words
        if len(token) < SHORTEST_TOKEN:
            raise TokenFileInvalid(path, number, f"its token has fewer than {SHORTEST_TOKEN} characters")
        if token in tokens:
            raise TokenFileInvalid(path, number, "its token stands there twice")
        tokens[token] = name
    if not tokens:
        raise TokenFileInvalid(path, 1, "there is no token")
    return tokens
