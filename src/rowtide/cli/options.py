"""Shared by many commands: arguments, options, confirmation of losses, and listings."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, ParamSpec

import click

from rowtide.cli.groups import CommandTable
from rowtide.cli.output.rows import OutputFormat, notes, print_listed
from rowtide.core.errors import RowtideError
from rowtide.core.options import Argument, Option
from rowtide.core.values import frozen
from rowtide.databases.urls import lasting
from rowtide.lake.errors import SparkSettingInvalid
from rowtide.lake.spark_settings import SparkRequest, parse_setting

if TYPE_CHECKING:
    from rowtide.cdc.lake_functions import LakeFunctions


Db = Annotated[
    str,
    Option(
        "--db",
        envvar="ROWTIDE_DB",
        help="The source database: postgresql://user@host/name, or its name in the configuration file",
        show_default=False,
        is_database=True,
    ),
]
MonitoredDb = Annotated[
    list[str],
    Option(
        "--db",
        metavar="URL",
        help="A database to be polled, or its name in the configuration file; may be repeated. Default: the one in "
        "ROWTIDE_DB, else all databases of the file.",
        show_default=False,
    ),
]

AnyDb = Annotated[
    str,
    Option(
        "--db",
        envvar="ROWTIDE_DB",
        help="The database: sqlite:///folder/file.db, postgresql://user@host/name",
        show_default=False,
        check=lasting,
        is_database=True,
    ),
]
"""The option for a database of any kind that can be tracked."""
DryRun = Annotated[bool, Option("--dry-run", help="Print the statements instead of running them.")]
InstanceName = Annotated[str, Argument(metavar="INSTANCE", help="a capture instance")]
ListingFormat = Annotated[OutputFormat, Option("--format", help="How rows are printed.")]
IgnoreSubscriber = Annotated[bool, Option("--ignore-subscriber", help="The subscriber is gone: change nothing there.")]
HideKeys = Annotated[
    bool,
    Option("--hide-keys", help="Print and store *** in place of rows' keys and values, also in messages of databases."),
]
"""Read before the command line is parsed: see `run_command`."""
Wide = Annotated[bool, Option("--wide", help="Show all columns of a table.")]


def open_lake_of(db: str) -> LakeFunctions:
    """Return the functions that a database's lake answers: a part of `rowtide.connect(db).cdc` that starts faster."""
    from rowtide.cdc.lake_functions import LakeFunctions

    return LakeFunctions(db)


Upgrade = Annotated[
    bool,
    Option(
        "--upgrade",
        help="First migrate what an earlier version of rowtide stored, as `rowtide upgrade` does.",
        from_file=False,
    ),
]


def upgrade_first(db: str, subscribers: Sequence[str] | None = ()) -> None:
    """Migrate the stores of a database and of subscribers; None: all subscribers that it records.

    A subscriber that cannot be migrated is reported, and left to the agent. Raises the error that prevents the
    migration of the database itself.
    """
    from rowtide.upgrading.upgrade import upgrade

    own, *others = upgrade(db, subscribers)
    for failure in own.failures:
        raise failure
    for found in (own, *others):
        for failure in found.failures:
            notes.print(f"{found.url}: {failure}", soft_wrap=True)
        for store in found.list_outdated():
            migrated = f"{store.format.store} at {store.place}: migrated to format {store.format.number}."
            notes.print(migrated, soft_wrap=True)


Reason = Annotated[str, Option(help="Recorded with the gap.")]
Yes = Annotated[bool, Option("--yes", help="Do not ask.", from_file=False)]


class LossNotConfirmed(RowtideError, number=1016):
    """The user has not confirmed that something is lost."""

    fact = "nothing was done: what would be lost was not confirmed"
    hint = "Run the command again and answer y, or run it with --yes."


def confirm_loss(lost: object, *, yes: bool) -> None:
    """Report what is lost; unless `yes` is set, ask. Raises `LossNotConfirmed`, also without a terminal to ask on."""
    # With --quiet, too, if it is asked about.
    notes.print(f"Lost: {lost}.", soft_wrap=True, is_error=not yes)
    if not (yes or _is_confirmed()):
        raise LossNotConfirmed


def _is_confirmed() -> bool:
    try:
        return click.confirm("Continue?", err=True)
    except click.Abort:
        # It has left its line unfinished.
        notes.print("")
        return False


def parsed(settings: list[str]) -> list[str]:
    """Refuse malformed settings of Spark."""
    try:
        for setting in settings:
            parse_setting(setting)
    except SparkSettingInvalid as error:
        raise ValueError(error.filled_fact) from error
    return settings


@frozen(kw_only=True)
class SparkOptions:
    """Where Spark runs, and with which settings."""

    master: Annotated[
        str | None,
        Option(
            "--master",
            metavar="URL",
            help="Where Spark runs: spark://host:7077, yarn, k8s://...; default: what Spark is given, or local[*].",
            show_default=False,
        ),
    ] = None
    spark_conf: Annotated[
        list[str],
        Option(
            "--spark-conf",
            metavar="K=V",
            help="A setting of Spark; may be repeated.",
            show_default=False,
            check=parsed,
        ),
    ] = field(default_factory=list)

    @property
    def request(self) -> SparkRequest:
        """What is asked of Spark."""
        return SparkRequest(self.master, dict(map(parse_setting, self.spark_conf)))


@frozen(kw_only=True)
class ClusterOptions(SparkOptions):
    """Where Spark runs, of a command whose tasks read the lake or the log store themselves."""

    shared_storage: Annotated[
        bool,
        Option("--shared-storage", help="Spark's workers have this machine's lake and log store, at the same paths."),
    ] = False

    @property
    def request(self) -> SparkRequest:
        """What is asked of Spark."""
        return SparkRequest(
            self.master, dict(map(parse_setting, self.spark_conf)), has_shared_storage=self.shared_storage
        )


SomePublication = Annotated[str | None, Argument(metavar="PUBLICATION", help="default: all")]


HubDb = Annotated[
    str,
    Option(
        "--db",
        envvar="ROWTIDE_DB",
        help="The publisher, the hub: sqlite:///folder/file.db, postgresql://user@host/name",
        show_default=False,
        check=lasting,
        is_database=True,
    ),
]
SomeHubDb = Annotated[
    str | None,
    Option(
        "--db",
        envvar="ROWTIDE_DB",
        help="The publisher, the hub: sqlite:///folder/file.db, postgresql://user@host/name",
        show_default=False,
        check=lasting,
        is_database=True,
    ),
]
ArticleName = Annotated[str, Argument(metavar="ARTICLE", help="an article's name, or its table")]
SomeSubscriber = Annotated[
    str | None,
    Option(
        "--subscriber",
        help="The subscriber's database: sqlite:///folder/file.db, postgresql://user@host/name",
        check=lasting,
        show_default=False,
        is_database=True,
    ),
]


Listed = tuple[type[Any], Iterable[object]]
Parameters = ParamSpec("Parameters")


def listing(
    app: CommandTable, *, epilog: str, columns: str = "", json_texts: Collection[str] = ()
) -> Callable[[Callable[Parameters, Listed]], Callable[Parameters, Listed]]:
    """Make a command of a function: it has `--format`, too, and `--wide` unless a table has all fields.

    `columns` are the fields in a table, with commas, and their headings where those differ: `duration as seconds`.
    `json_texts` as for `print_listed`.
    """
    brief = _parse_columns(columns)

    def add(function: Callable[Parameters, Listed]) -> Callable[Parameters, Listed]:
        @wraps(function)
        def command(*, form: OutputFormat, wide: bool = False, **values: Any) -> None:
            kind, listed = function(**values)  # type: ignore[call-arg]
            print_listed(kind, listed, form, brief or None, wide=wide, json_texts=json_texts)

        added = {"form": (ListingFormat, OutputFormat.TABLE)} | ({"wide": (Wide, False)} if brief else {})
        parameters = inspect.signature(function).parameters.values()
        own = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default)
            for name, (_, default) in added.items()
        ]
        command.__signature__ = inspect.Signature([*parameters, *own])  # type: ignore[attr-defined]
        kinds = {name: kind for name, (kind, _) in added.items()}
        command.__annotations__ = {**function.__annotations__, **kinds, "return": None}
        app.command(epilog=epilog)(command)
        return function

    return add


def _parse_columns(columns: str) -> Mapping[str, str]:
    """Return fields by their headings."""
    pairs = (column.strip().partition(" as ") for column in columns.split(",") if column)
    return {heading or field: field for field, _, heading in pairs}
