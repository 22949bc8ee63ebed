"""The base of every error that a user can meet: a number, the fact with names, and a hint.

An error is declared as a dataclass is, `class SlotMissing(DataLoss, number=2102)`: its fields are typed, and it pickles
(errors cross Spark and process boundaries). `fact` and `hint` are templates over its fields, whose lines are joined.
Its base class gives the kind of failure, if one applies: `NotFound`, `AlreadyExists`, `Invalid`, `Denied`, `Retryable`,
`DataLoss`. Numbers are SQL Server's where it has one, else four digits of ours: 1xxx environment and input, 2xxx log,
3xxx lake, 4xxx change data capture, 5xxx check, 6xxx change tracking, 7xxx transactional replication, 8xxx merge
replication (84xx devices over HTTP), 9xxx targets.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator, Mapping
from copy import copy
from itertools import cycle
from typing import ClassVar, dataclass_transform

from rowtide.core.redaction import KINDS, are_hidden, as_shown, redact, without_row


class Remedy(enum.Enum):
    """What an agent does after an error, determined by the error's class."""

    STOP = "stop"
    RETRY = "retry"
    REGAIN = "regain"
    """Stop; but an agent that has run before retries, as what is missing existed then."""
    RESTART = "restart"
    """Stop; a new process continues."""


@dataclass_transform(eq_default=False)
class RowtideError(Exception):
    """Base of all errors that a user or the environment causes.

    Printed as `RT-number: fact. Hint`, with passwords masked.
    """

    number: ClassVar[int]
    fact: ClassVar[str]
    hint: ClassVar[str]
    remedy: ClassVar[Remedy] = Remedy.STOP
    field_names: ClassVar[tuple[str, ...]] = ()
    row_fields: ClassVar[Mapping[str, str]] = {}
    """The fields that may hold keys or values of rows, with the names of their types: see `rowtide.core.redaction`."""

    def __init_subclass__(cls, *, number: int | None = None) -> None:
        """Declare an error if the class has a number: its annotated fields fill the templates `fact` and `hint`.

        Errors are not dataclasses: generating the methods of five hundred classes would take a tenth of a command's
        start.
        """
        if number is None:
            return
        cls.number = number
        cls.fact, cls.hint = (_LINE_ENDS.sub(" ", text) for text in (cls.fact, cls.hint))
        own = cls.__annotations__
        cls.field_names = (*cls.field_names, *(name for name in own if name not in cls.field_names))
        cls.row_fields = {**cls.row_fields, **{name: kind for name, kind in own.items() if kind in KINDS}}

    def __init__(self, *values: object, **named: object) -> None:
        """Set the fields, as a dataclass does. Raises `TypeError`."""
        given = dict(zip(self.field_names, values, strict=False)) | named
        missing = [name for name in self.field_names if name not in given and not hasattr(type(self), name)]
        if missing or len(given) != len(values) + len(named) or not given.keys() <= set(self.field_names):
            raise TypeError(
                f"{type(self).__name__} has the fields {self.field_names}, not {len(values)} and {[*named]}"
            )
        for name, value in given.items():
            kind = self.row_fields.get(name)
            setattr(self, name, value if kind is None else as_shown(kind, value))

    @property
    def filled_fact(self) -> str:
        """The fact with the fields' values."""
        return self._fill(self.fact)

    @property
    def without_row(self) -> str:
        """The message without keys and values of rows, whether or not they are hidden elsewhere."""
        if not self.row_fields:
            return str(self)
        hidden = copy(self)
        for name, kind in self.row_fields.items():
            if (value := getattr(self, name)) is not None:
                setattr(hidden, name, without_row(kind, str(value)))
        return str(hidden)

    @property
    def filled_hint(self) -> str:
        """The hint with the fields' values, quoted for the shell where they are in a command."""
        return self._fill(self.hint)

    def __str__(self) -> str:
        return _SECOND_STOP.sub("", f"RT-{self.number}: {self.filled_fact}. {self.filled_hint}".rstrip())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def __reduce__(self) -> tuple[type[RowtideError], tuple[object, ...]]:
        return type(self), tuple(self._values().values())

    def _fill(self, template: str) -> str:
        values = self._values()
        filled = (
            part.format(**({name: _quote(value) for name, value in values.items()} if is_command else values))
            for part, is_command in zip(_COMMAND.split(template), cycle((False, True)), strict=False)
        )
        return _LINE_ENDS.sub(" ", redact("".join(filled)))

    def _values(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in self.field_names}


def find_classes(number: int, base: type[RowtideError] = RowtideError) -> Iterator[type[RowtideError]]:
    """Yield the error classes with a number. Only imported modules are searched; `rowtide.errors` imports all."""
    for error in base.__subclasses__():
        if vars(error).get("number") == number:
            yield error
        yield from find_classes(number, error)


class NotFound(RowtideError):
    """The named object does not exist."""


class AlreadyExists(RowtideError):
    """The object to be created already exists, or its name is in use."""


class Invalid(RowtideError):
    """A value, a table or a setting is not valid for the request."""


class Denied(RowtideError):
    """The request is not allowed: a privilege is missing, or a dependent object prevents it."""


class Retryable(RowtideError):
    """The operation may succeed unchanged if it is retried."""

    remedy = Remedy.RETRY


class DataLoss(RowtideError):
    """Changes are missing, or can no longer be determined: the process has to start again."""


def _quote(value: object) -> str:
    from shlex import quote

    return quote(str(value))


_COMMAND = re.compile(r"(`rowtide [^`]*`)")
_LINE_ENDS = re.compile(r"\s*[\r\n]\s*")
_SECOND_STOP = re.compile(r"(?<=[^.\s/]\.)\.(?=\s|$)|(?<=[?!])\.(?=\s|$)")
"""A second full stop after a driver's message, but no ellipsis and no dot in a path."""


def describe(error: BaseException) -> str:
    """Return an error's message. While values are hidden, return only the class of an error that is not rowtide's."""
    if isinstance(error, RowtideError):
        return str(error)
    kind = type(error).__name__
    return kind if are_hidden() else redact(f"{kind}: {error}" if str(error) else kind)


class InvalidLsn(Invalid, number=1001):
    """The text is not an LSN, or exceeds 7 bits of epoch and 56 bits of log position."""

    fact = '"{text}" is not an LSN'
    hint = "Write it as X/Y, as epoch:X/Y, or as the integer that queries return."
    text: str


class ExtraMissing(RowtideError, number=1003):
    """An optional part is used whose extra is not installed."""

    fact = "the package {package} is not installed"
    hint = "Run `pip install 'rowtide[{extra}]'`."
    package: str
    extra: str


class FileNotWritable(RowtideError, number=1005):
    """A file that the user names cannot be written."""

    fact = "the file {path} cannot be written: {reason}"
    hint = "Name a file in an existing folder that this user may write to."
    path: str
    reason: str


class OptionsContradict(Invalid, number=1138):
    """Two options contradict each other."""

    fact = "{one} and {other} say different things"
    hint = "Give one of them."
    one: str
    other: str


class FileNotReadable(RowtideError, number=1008):
    """A file that the user names cannot be read."""

    fact = "the file {path} cannot be read: {reason}"
    hint = "Name an existing text file that this user may read."
    path: str
    reason: str


class NameUnfit(Invalid, number=1024):
    """A name cannot be typed again, or cannot be distinguished in a listing."""

    fact = "{name} cannot name a {kind}: {reason}"
    hint = "Give it a name of 1 to 128 characters, none of them a control character."
    kind: str
    name: str
    reason: str


class PlaceUnnamed(Invalid, number=1025):
    """The path of a lake or log store is empty, which does not mean the current folder."""

    fact = "{place} names no folder: {reason}"
    hint = "Name a folder or its URL, as /data/lake; an unset variable of the shell is an empty text."
    place: str
    reason: str


class DecodeError(RowtideError, number=2101):
    """The log's stream is malformed. Nothing of it is guessed or skipped."""

    fact = "the log stream is malformed at byte {offset} of a batch, in a message of type {message_type}: {problem}"
    hint = "Nothing of the batch was stored; run again, and report it with the server's version if it comes back."
    offset: int
    message_type: str
    problem: str
