"""Errors of the demo: 49xx. 4901 to 4904 are violations of the guarantees that the demo tests."""

from __future__ import annotations

from rowtide.core.errors import RowtideError


class BalancesDisagree(RowtideError, number=4901):
    """A read up to a maximum LSN saw part of a transaction."""

    fact = """the changes up to LSN {lsn} are not consistent: accounts changed by {accounts}, tellers by {tellers},
        branches by {branches}, the history holds {history}"""
    hint = "A transaction was partly visible: this is a fault of rowtide; please report it."
    lsn: str
    accounts: int
    tellers: int
    branches: int
    history: int


class MaximumWentBack(RowtideError, number=4902):
    """The maximum LSN decreased."""

    fact = "the maximum LSN decreased from {before} to {after}"
    hint = "This is a fault of rowtide; please report it."
    before: str
    after: str


class RowsDiffer(RowtideError, number=4903):
    """What the lake has of a table differs from the source."""

    fact = "what the lake has differs from the source: {differences}"
    hint = "This is a fault of rowtide; please report it."
    differences: str


class TooFewReads(RowtideError, number=4904):
    """Too few consistent reads were done in time."""

    fact = "only {reads} of {needed} consistent reads were done while pgbench ran, for {seconds} s"
    hint = "The machine may be too busy: close other programs, then try again."
    reads: int
    needed: int
    seconds: int


class ProcessEnded(RowtideError, number=4905):
    """A process of the demo ended by itself."""

    fact = "{name} ended by itself ({how}): {complaint}"
    hint = "`rowtide demo --keep DIR` keeps the messages of all processes in DIR/messages."
    name: str
    how: str
    complaint: str


class ProcessSilent(RowtideError, number=4906):
    """A process of the demo does not answer, or takes too long."""

    fact = "{name} did not finish within {seconds} s: {awaited}"
    hint = "The machine may be too busy. `rowtide demo --keep DIR` keeps the messages of all processes in DIR/messages."
    name: str
    seconds: int
    awaited: str


class DirectoryNotEmpty(RowtideError, number=4907):
    """The demo needs an empty folder."""

    fact = "{path} is not an empty folder"
    hint = "With --keep, give a folder that is empty or does not exist."
    path: str


class DirectoryNotWritable(RowtideError, number=4908):
    """The folder cannot be created."""

    fact = "the folder {path} cannot be created: {reason}"
    hint = "With --keep, give a folder to which this user may write."
    path: str
    reason: str
