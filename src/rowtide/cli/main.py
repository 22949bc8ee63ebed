"""The `rowtide` command."""

from __future__ import annotations

import gc
import logging
import sys
import threading
import traceback
from collections.abc import Sequence
from types import TracebackType
from typing import Annotated

import typer

from rowtide.cli.adopt import adopt
from rowtide.cli.check import check
from rowtide.cli.demo import demo
from rowtide.cli.features import FeatureGroup, Group
from rowtide.cli.health import health
from rowtide.cli.process import run_as_process
from rowtide.core.errors import RowtideError
from rowtide.core.extras import leave_out_pandas, naming_extras
from rowtide.core.secrets import MASK, redact

_OBJECTS_BETWEEN_COLLECTIONS = 200_000
_FEATURES = {
    "cdc": "Change data capture: changes in Delta tables, queryable by LSN.",
    "lake": "Copy a lake and its log store, from disk to a bucket and back, and move them.",
    "agent": "The jobs of a database: capture all the time, cleanup daily.",
    "replication": "Transactional replication: published tables delivered to subscribers, exactly once.",
    "merge": "Merge replication: a hub and subscribers that all write, offline too, and come to the same rows.",
    "tracking": "Change tracking: what changed since the last synchronisation.",
}

app = typer.Typer(
    name="rowtide",
    cls=Group,
    help="SQL Server's change-data family for PostgreSQL and SQLite, with the data pipeline on Spark.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for _name, _help in _FEATURES.items():
    app.add_typer(typer.Typer(cls=FeatureGroup, help=_help, no_args_is_help=True), name=_name)
app.command(epilog="Example: rowtide adopt --yes --db postgresql://localhost/shop")(adopt)
app.command(epilog="Example: rowtide check --lake /data/lake --db postgresql://localhost/shop")(check)
app.command(epilog="Example: rowtide health --format json --db postgresql://localhost/shop")(health)
app.command(epilog="Example: rowtide demo --keep /tmp/rowtide-demo")(demo)


def print_version(*, wanted: bool) -> None:
    """Print the version and exit."""
    if wanted:
        from importlib.metadata import version

        print(f"rowtide {version('rowtide')}")
        raise typer.Exit


@app.callback()
def configure(
    *,
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=lambda wanted: print_version(wanted=wanted), is_eager=True, help="Print the version."
        ),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error, and log what agents do.")
    ] = False,
) -> None:
    """Apply the options of all commands."""
    handler = logging.StreamHandler()
    handler.setFormatter(_Redacting("%(asctime)s %(name)s %(message)s"))
    logging.basicConfig(level=logging.INFO if debug else logging.ERROR, handlers=[handler])
    # A JVM that ends is an error of ours; py4j logs a traceback besides for each call that was under way.
    logging.getLogger("py4j").setLevel(logging.NOTSET if debug else logging.CRITICAL)


def run_command(arguments: Sequence[str]) -> int:
    """Run a command line and return its exit code.

    0 on success, 1 with one `RT-nnnn` line on stderr for an error, 2 for wrong usage.
    """
    if is_debugging := "--debug" in arguments:
        arguments = ["--debug", *(argument for argument in arguments if argument != "--debug")]
    try:
        with naming_extras():
            app(arguments)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except RowtideError as error:
        if is_debugging:
            _print_traceback(type(error), error, error.__traceback__)
        else:
            print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def main() -> None:
    """Run this process's command line, and end the process."""
    # What imports leave stays: looking for garbage among it takes a tenth of a command's start.
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS, *gc.get_threshold()[1:])
    leave_out_pandas()
    sys.excepthook = _print_traceback
    threading.excepthook = lambda raised: _print_traceback(raised.exc_type, raised.exc_value, raised.exc_traceback)
    run_as_process(lambda: run_command(sys.argv[1:]))


class _Redacting(logging.Formatter):
    """Masks passwords of URLs in log lines."""

    def format(self, record: logging.LogRecord) -> str:
        return redact(super().format(record))


def _print_traceback(kind: type[BaseException], error: BaseException | None, at: TracebackType | None) -> None:
    """Print a traceback without passwords of URLs and values of rows, which drivers' messages may contain."""
    from rowtide.databases.postgres.errors import find_values_behind

    text = "".join(traceback.format_exception(kind, error, at))
    for values in find_values_behind(error):
        text = text.replace(values, MASK)
    sys.stderr.write(redact(text))


if __name__ == "__main__":
    main()
