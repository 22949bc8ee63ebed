"""The check's errors: 51xx."""

from __future__ import annotations

from rowtide.core.errors import Invalid, RowtideError


class Stopped(RowtideError, number=5101):
    """`rowtide check` found what stops rowtide's work, or would; its results are listed before this line."""

    fact = "work is stopped by {subjects}"
    hint = "Each is listed with its remediation; then run `rowtide check` again."
    subjects: str


class NothingForLake(Invalid, number=5102):
    """A lake was named for a database that is not captured."""

    fact = "SQLite files are tracked, not captured: no changes of this one reach the lake {lake}"
    hint = "Omit --lake."
    lake: str


class LakeNotChecked(Invalid, number=5103):
    """A lake was named for a purpose that creates none."""

    fact = "a check as {purpose} does not check a lake that does not exist yet: {lake}"
    hint = "Omit --lake, or check with --as publisher."
    purpose: str
    lake: str


class NotAPublisher(Invalid, number=5104):
    """A SQLite file was to be checked as a publisher."""

    fact = "SQLite files are not captured or published: {path} cannot be checked as publisher"
    hint = "Check it as monitor, reader, subscriber or merge."
    path: str
