"""Long parameters that a session receives before a transaction, piece by piece, so that nothing is locked meanwhile.

They are stored in a temporary table; statements of the transaction refer to them by an expression
(docs/decisions/0007).
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, LiteralString

import psycopg

Parameters = Sequence[Any] | Mapping[str, Any] | None
Text = str | bytes
Statement = tuple[str, Parameters]

LONG = 4096
"""Parameters from this length on are received separately."""
_LEAST_TOGETHER, _MOST_TOGETHER = 64 * 1024, 512 * 1024
"""How much is sent before waiting for a reply: 4 seconds at 128 kbit/s, and more as long as that takes less than a
second.
"""
_SHORT_S, _LONG_S = 1.0, 8.0
_TABLE = "pg_temp.rowtide_received"
_MAKING = (
    f"drop table if exists {_TABLE}",
    f"create temporary table {_TABLE} (text_number integer, piece integer, characters text, octets bytea)",
    # Compression would take longer than it saves, since the texts are read once.
    f"alter table {_TABLE} alter column characters set storage external, alter column octets set storage external",
)
_PARAMETER = re.compile(r"%%|%(?:\((?P<name>[^)]+)\))?s(?P<typed>::)?")
_COLUMNS: Mapping[type[Text], tuple[LiteralString, LiteralString]] = {
    str: ("characters", "''"),
    bytes: ("octets", "''::bytea"),
}


class ReceivedTexts:
    """The texts that a session has received, by what they are."""

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}
        self._is_made = self._is_stale = False
        self._together = _LEAST_TOGETHER

    def forget(self) -> None:
        """Let the next texts replace the received ones."""
        self._numbers.clear()
        self._is_stale = self._is_made

    def find(self, text: Text) -> str | None:
        """Return the expression of a text; None if it was not received."""
        number = self._numbers.get(_identify(text))
        if number is None:
            return None
        column, nothing = _COLUMNS[type(text)]
        pieces = f"string_agg({column}, {nothing} order by piece)"
        return f"(select {pieces} from {_TABLE} where text_number = {number})"  # noqa: S608 - of constants

    def statements(self, texts: Sequence[Text]) -> Iterator[list[Statement]]:
        """Yield the statements by which texts are received; who asks for more has run what came before."""
        opening: list[Statement] = []
        if not self._is_made:
            opening = [(each, None) for each in _MAKING]
        elif self._is_stale:
            opening = [(f"truncate {_TABLE}", None)]
        self._is_made, self._is_stale = True, False
        batch, length = opening, 0
        for text in texts:
            name = _identify(text)
            if name in self._numbers or name == _UNFIT:
                continue
            number, column = len(self._numbers), _COLUMNS[type(text)][0]
            insertion = f"insert into {_TABLE} (text_number, piece, {column}) values (%s, %s, %s)"  # noqa: S608
            start = 0
            while start < len(text):
                piece = text[start : start + self._together - length]
                batch.append((insertion, [number, start, piece]))
                start, length = start + len(piece), length + len(piece)
                if length >= self._together:
                    began = time.monotonic()
                    yield batch
                    self._adapt(time.monotonic() - began)
                    batch, length = [], 0
            self._numbers[name] = number
        if batch:
            yield batch

    def _adapt(self, seconds: float) -> None:
        if seconds < _SHORT_S:
            self._together = min(2 * self._together, _MOST_TOGETHER)
        elif seconds > _LONG_S:
            self._together = max(self._together // 2, _LEAST_TOGETHER)


_UNFIT = b""


def _identify(text: Text) -> bytes:
    """Return a hash of a text; `_UNFIT` if no server accepts it."""
    if isinstance(text, str):
        try:
            octets = text.encode()
        except UnicodeEncodeError:
            return _UNFIT
        return _UNFIT if "\0" in text else blake2b(octets, digest_size=32, person=b"text").digest()
    # A hash instead of the text, so that megabytes do not stay in memory as long as the session.
    return blake2b(text, digest_size=32, person=b"octets").digest()


def length_of(statement: Statement) -> int:
    """Return how long the parameters of a statement are."""
    parameters = statement[1]
    values = parameters.values() if isinstance(parameters, Mapping) else parameters or ()
    return sum(len(text) for text in map(_text_of, values) if text is not None)


def _text_of(value: object) -> Text | None:
    if isinstance(value, psycopg.Binary):
        value = value.obj
    return value if type(value) in (str, bytes) else None  # type: ignore[return-value]


def shortened(statements: Sequence[Statement], received: ReceivedTexts) -> tuple[list[Statement], list[Text]]:
    """Return statements with the received texts in the place of their parameters, and the long ones not received."""
    missing: list[Text] = []
    return [_shortened(*each, received, missing) for each in statements], missing


def _shortened(statement: str, parameters: Parameters, received: ReceivedTexts, missing: list[Text]) -> Statement:
    """Replace parameters whose type the statement says: an expression has one of its own."""
    if not parameters or length_of((statement, parameters)) < LONG:
        return statement, parameters
    listed: list[Any] = []
    values = iter(() if isinstance(parameters, Mapping) else parameters)

    def replace(found: re.Match[str]) -> str:
        if found[0] == "%%":
            return found[0]
        value = parameters[found["name"]] if isinstance(parameters, Mapping) else next(values)
        text = _text_of(value)
        if text is not None and len(text) >= LONG and found["typed"]:
            expression = received.find(text)
            if expression is not None:
                return f"{expression}::"
            missing.append(text)
        listed.append(value)
        return f"%s{found['typed'] or ''}"

    return _PARAMETER.sub(replace, statement), listed
