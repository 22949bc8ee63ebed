"""The file of tokens by which people and programs say who they are; it may be replaced at any time."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from rowtide.databases.passwords import FilePassword, PasswordSource
from rowtide.monitor.errors import TokenFileInvalid
from rowtide.monitor.web.access import Access, AccessOptions, Role, Tokens, parse_network

SHORTEST_TOKEN = 16
"""A token that can be guessed is none."""
_OPERATOR = Role.OPERATOR.value


def make_access(options: AccessOptions, auth: PasswordSource | None) -> Access:
    """Return who may look, by options, and by the one token that the configuration file may have instead of a file.

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
    """A file of tokens; what it has is read again when it was written again."""

    def __init__(self, path: str) -> None:
        self._file = FilePassword(path)
        self._read_of: tuple[int, int, int] | None = None
        self._tokens: Tokens = {}
        self._operators: frozenset[str] = frozenset()
        self._reading = threading.Lock()

    def read(self) -> Tokens:
        """Return the tokens in force.

        Raises `PasswordNotRead` and `PasswordFileNotPrivate`, of any file that others may read, and `TokenFileInvalid`.
        """
        with self._reading:
            state = self._state()
            if state is None or state != self._read_of:
                # The file is read before it is known to be the one of this state: at worst it is read once more.
                self._tokens, self._operators = parse_tokens(
                    self._file.path, self._file.read_all().decode("utf-8", "replace")
                )
                self._read_of = state
            return self._tokens

    def read_operators(self) -> frozenset[str]:
        """Return the names of the operators in force. Raises as `read`."""
        self.read()
        return self._operators

    def _state(self) -> tuple[int, int, int] | None:
        try:
            found = os.stat(self._file.path)
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size


def parse_tokens(path: str, text: str) -> tuple[Tokens, frozenset[str]]:
    """Return the tokens of a file, and its operators: a line `NAME TOKEN [operator]` each; # lines say nothing.

    Raises `TokenFileInvalid`, which has no token.
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
