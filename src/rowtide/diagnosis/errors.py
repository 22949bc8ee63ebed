"""The check's errors: 51xx."""

from __future__ import annotations

from rowtide.core.errors import Invalid, RowtideError, numbered


@numbered
class Stopped(RowtideError):
    """`rowtide check` found what stops rowtide's work, or would; its findings are listed before this line."""

    number = 5101
    fact = "work is stopped by {subjects}"
    hint = "Each is listed with what mends it; then run `rowtide check` again."
    subjects: str


@numbered
class NothingForLake(Invalid):
    """A lake was named for a database that is not captured."""

    number = 5102
    fact = "SQLite files are tracked, not captured: nothing of this one comes to the lake {lake}"
    hint = "Leave out --lake."
    lake: str


@numbered
class LakeNotJudged(Invalid):
    """A lake was named for a purpose that makes none."""

    number = 5103
    fact = "a check as {purpose} looks at no lake that is still to be made: {lake}"
    hint = "Leave out --lake, or check with --as publisher."
    purpose: str
    lake: str


@numbered
class NotAPublisher(Invalid):
    """A SQLite file was to be judged as a publisher."""

    number = 5104
    fact = "SQLite files are not captured or published: {path} cannot be checked as publisher"
    hint = "Check it as monitor, reader, subscriber or merge."
    path: str


@numbered
class PurposeUnknown(Invalid):
    """No purpose of a check has this name."""

    number = 5105
    fact = '"{name}" is no purpose of a check'
    hint = "Choose one of {purposes}."
    name: str
    purposes: str
