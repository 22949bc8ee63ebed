"""Errors of unit files."""

from __future__ import annotations

from rowtide.core.errors import AlreadyExists, Denied


class UnitOfOthers(AlreadyExists, number=1220):
    """A unit file that `install-units` has not written is in the way."""

    fact = "{path} exists, and `rowtide install-units` has not written it"
    hint = "Move it away, or name another folder with --folder. Your own settings belong in a drop-in (systemctl edit)."
    path: str


class UnitsNotWritten(Denied, number=1221):
    """The folder of the unit files cannot be written."""

    fact = "unit files cannot be written to {folder}: {reason}"
    hint = "Run it as root, install them for your own user manager with --user, or name another folder with --folder."
    folder: str
    reason: str
