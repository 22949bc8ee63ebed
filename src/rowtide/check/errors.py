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
