"""The check's errors: 51xx."""

from __future__ import annotations

from rowtide.core.errors import Invalid, RowtideError


class Stopped(RowtideError, number=5101):
    """`rowtide check` found what stops rowtide's work, or would; its results are listed before this line."""

    fact = "work is stopped by {subjects}"
    hint = "Each is listed with what mends it; then run `rowtide check` again."
    subjects: str


class NothingForLake(Invalid, number=5102):
    """A lake was named for a database that is not captured."""

    fact = "SQLite files are tracked, not captured: nothing of this one comes to the lake {lake}"
    hint = "Leave out --lake."
    lake: str


class LakeNotChecked(Invalid, number=5103):
    """A lake was named for a purpose that makes none."""

    fact = "a check as {purpose} looks at no lake that is still to be made: {lake}"
    hint = "Leave out --lake, or check with --as publisher."
    purpose: str
    lake: str


class NotAPublisher(Invalid, number=5104):
    """A SQLite file was to be checked as a publisher."""

    fact = "SQLite files are not captured or published: {path} cannot be checked as publisher"
    hint = "Check it as monitor, reader, subscriber or merge."
    path: str


class PurposeUnknown(Invalid, number=5105):
    """No purpose of a check has this name."""

    fact = '"{name}" is no purpose of a check'
    hint = "Choose one of {purposes}."
    name: str
    purposes: str
