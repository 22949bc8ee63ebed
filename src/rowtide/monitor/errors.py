"""Errors of the monitor."""

from __future__ import annotations

from rowtide.core.errors import AlreadyExists, Denied, Invalid, NotFound, Retryable, RowtideError


class MonitorRuns(Denied, number=1200):
    """Another monitor has the file of samples open."""

    fact = "another monitor, process {process}, has {path} open"
    hint = "Stop it; or give this one a folder of its own: set STATE_DIRECTORY."
    path: str
    process: str


class SamplesNewer(Denied, number=1201):
    """A newer build of rowtide wrote the monitor's file."""

    fact = "{path} has format {found}, this build reads {known}"
    hint = "Run the newer build; or move the file away, which loses 24 hours of samples and begins counters again."
    path: str
    found: int
    known: int


class SamplesForeign(Invalid, number=1202):
    """The file where samples are kept is a database of another program."""

    fact = "{path} is a SQLite database of another program"
    hint = "Set STATE_DIRECTORY to a folder in which rowtide may keep a file of that name."
    path: str


class StateFolderUnknown(Invalid, number=1222):
    """Nothing says where samples are to be kept: the user has no home."""

    fact = "nothing says in which folder the monitor keeps its samples: user {user} has no home"
    hint = "Set STATE_DIRECTORY to a folder that this user may write."
    user: str


class DatabaseGivenTwice(AlreadyExists, number=1205):
    """A database is to be monitored twice."""

    fact = "the database {name} is given twice"
    hint = "Give each database once: its name is the label `database` of all its metrics."
    name: str


class PollFailed(RowtideError, number=1207):
    """A poll failed with an internal error of rowtide, not one of a database."""

    fact = "the poll of database {name} failed: {reason}"
    hint = "It is repeated. Report it, with the traceback that the log has, if it comes back."
    name: str
    reason: str


class NoDatabaseGiven(Invalid, number=1206):
    """No database is given to the monitor."""

    fact = "no database is given"
    hint = "Name it with --db, which may be repeated, or in ROWTIDE_DB."


class AccessOpen(Invalid, number=1223):
    """Others than this machine's users would reach a monitor that asks nobody who they are."""

    fact = "the monitor would listen on {host}, where others reach it, and {reason}"
    hint = "Name a file of tokens with --token-file; or listen on 127.0.0.1, and let a proxy ask."
    host: str
    reason: str


class MetricsOpen(Invalid, number=1164):
    """Metrics of a command, which ask nobody who they are, would be served where other machines reach them."""

    fact = "metrics would be served on {host}, where every client can read names of tables and subscribers"
    hint = "Listen on 127.0.0.1 or write --metrics-file; on a network that is closed to others, give --metrics-open."
    host: str


class TokenFileInvalid(Invalid, number=1224):
    """A file of tokens has a line that is none of `NAME TOKEN`."""

    fact = "line {line} of the file of tokens {path} is refused: {reason}"
    hint = "Write a line NAME TOKEN for each who may look, the token of 16 characters or more without spaces."
    path: str
    line: int
    reason: str


class TokenFileNotRead(Retryable, number=1168):
    """The file of tokens is missing, or cannot be read."""

    fact = "the file of tokens {path} cannot be read: {reason}"
    hint = "Write it for the user that runs the monitor, a line NAME TOKEN for each who may look, with mode 0600."
    path: str
    reason: str


class NetworkInvalid(Invalid, number=1225):
    """The text is no network of proxies."""

    fact = "{text} is no network: {reason}"
    hint = "Write an address, or a network as 10.0.0.0/8."
    text: str
    reason: str


class OperatorUrlMissing(NotFound, number=1232):
    """Operators have no connection of their own to a database."""

    fact = 'the configuration file has no operator_url of the database "{name}"'
    hint = "Write it into its section, of a role with the rights of the actions; the monitor's own role does nothing."
    name: str


class ActionsOpen(Invalid, number=1233):
    """A monitor is to allow actions without knowing who acts."""

    fact = "the monitor cannot allow actions: {reason}"
    hint = "Name a file of tokens with --token-file, or the header of a proxy, and who may act with --operators."
    reason: str


class SubscriberUnclear(NotFound, number=1234):
    """The name that a page has for a subscriber is that of none, or of several."""

    fact = 'the publication {publication} has {count} subscribers that are shown as "{shown}"'
    hint = "Do it on the command line, with the subscriber's URL."
    shown: str
    publication: str
    count: int


class TerminalMissing(Invalid, number=7214):
    """The first page of databases is to be shown where there is no terminal."""

    fact = "`rowtide top` needs a terminal"
    hint = "Run it in one; `rowtide health` prints the states of a database once, for scripts."
