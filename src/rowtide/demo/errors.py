"""Errors of the demo: 49xx. 4901 to 4904 are violations of the guarantees that the demo tests."""

from __future__ import annotations

from rowtide.core.errors import RowtideError, numbered


@numbered
class BalancesDisagree(RowtideError):
    """A read up to a maximum LSN saw part of a transaction."""

    number = 4901
    fact = (
        "the changes up to LSN {lsn} are not consistent: accounts changed by {accounts}, tellers by {tellers}, "
        "branches by {branches}, the history holds {history}"
    )
    hint = "A transaction was partly visible: this is a fault of rowtide; please report it."
    lsn: str
    accounts: int
    tellers: int
    branches: int
    history: int


@numbered
class MaximumWentBack(RowtideError):
    """The maximum LSN decreased."""

    number = 4902
    fact = "the maximum LSN decreased from {before} to {after}"
    hint = "This is a fault of rowtide; please report it."
    before: str
    after: str


@numbered
class RowsDiffer(RowtideError):
    """What the lake has of a table differs from the source."""

    number = 4903
    fact = "what the lake has differs from the source: {differences}"
    hint = "This is a fault of rowtide; please report it."
    differences: str


@numbered
class TooFewReads(RowtideError):
    """Too few consistent reads were done in time."""

    number = 4904
    fact = "only {reads} of {needed} consistent reads were done while pgbench ran, for {seconds} s"
    hint = "The machine may be too busy: close other programs, then try again."
    reads: int
    needed: int
    seconds: int


@numbered
class ProcessEnded(RowtideError):
    """A process of the demo ended by itself."""

    number = 4905
    fact = "{name} ended by itself ({how}): {complaint}"
    hint = "`rowtide demo --keep DIR` keeps the messages of all processes in DIR/messages."
    name: str
    how: str
    complaint: str


@numbered
class ProcessSilent(RowtideError):
    """A process of the demo does not answer, or takes too long."""

    number = 4906
    fact = "{name} did not finish within {seconds} s: {awaited}"
    hint = "The machine may be too busy. `rowtide demo --keep DIR` keeps the messages of all processes in DIR/messages."
    name: str
    seconds: int
    awaited: str


@numbered
class DirectoryNotEmpty(RowtideError):
    """The demo needs an empty folder."""

    number = 4907
    fact = "{path} is not an empty folder"
    hint = "With --keep, give a folder that is empty or does not exist."
    path: str


@numbered
class DirectoryNotWritable(RowtideError):
    """The folder cannot be created."""

    number = 4908
    fact = "the folder {path} cannot be created: {reason}"
    hint = "With --keep, give a folder to which this user may write."
    path: str
    reason: str
