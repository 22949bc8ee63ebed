"""`rowtide cdc lsn`: LSNs and their times."""

from __future__ import annotations

from typing import Annotated

from rowtide.cli.bounds import parse_time
from rowtide.cli.groups import CliGroup, CommandTable
from rowtide.cli.lakes import open_lake_of
from rowtide.cli.options import Db, InstanceName
from rowtide.core.lsn import CommitLsn
from rowtide.core.options import Argument

app = CommandTable()
lsn = CommandTable()
app["lsn"] = CliGroup("lsn", "LSNs: the validity interval's ends, neighbours, and times.", lsn)

GivenLsn = Annotated[str, Argument(metavar="LSN", help="X/Y, epoch:X/Y or the integer")]


@lsn.command(name="min", epilog="Example: rowtide cdc lsn min public_orders --db postgresql://localhost/shop")
def lsn_min(db: Db, instance: InstanceName) -> None:
    """Print an instance's low endpoint (SQL Server: fn_cdc_get_min_lsn)."""
    print(open_lake_of(db).get_min_lsn(instance))


@lsn.command(name="max", epilog="Example: rowtide cdc lsn max --db postgresql://localhost/shop")
def lsn_max(db: Db) -> None:
    """Print the last published LSN; nothing if there is none (SQL Server: fn_cdc_get_max_lsn)."""
    _print_if_any(open_lake_of(db).get_max_lsn())


@lsn.command(name="increment", epilog="Example: rowtide cdc lsn increment 0/16B3748")
def lsn_increment(lsn: GivenLsn) -> None:
    """Print the next LSN, where the next window begins (SQL Server: fn_cdc_increment_lsn)."""
    print(CommitLsn.parse(lsn).increment())


@lsn.command(name="decrement", epilog="Example: rowtide cdc lsn decrement 0/16B3748")
def lsn_decrement(lsn: GivenLsn) -> None:
    """Print the previous LSN (SQL Server: fn_cdc_decrement_lsn)."""
    print(CommitLsn.parse(lsn).decrement())


@lsn.command(
    name="of-time",
    epilog='Example: rowtide cdc lsn of-time "largest less than or equal" 2026-01-31T08:00:00Z '
    "--db postgresql://localhost/shop",
)
def lsn_of_time(
    db: Db,
    operator: Annotated[
        str,
        Argument(
            metavar="OPERATOR",
            help='"largest less than", "largest less than or equal", "smallest greater than" or '
            '"smallest greater than or equal"',
        ),
    ],
    time: Annotated[str, Argument(metavar="TIME", help="in ISO 8601, in UTC where it has no zone")],
) -> None:
    """Print the LSN closest to a time; nothing if there is none (SQL Server: fn_cdc_map_time_to_lsn)."""
    _print_if_any(open_lake_of(db).map_time_to_lsn(operator, parse_time(time)))


@lsn.command(name="time-of", epilog="Example: rowtide cdc lsn time-of 0/16B3748 --db postgresql://localhost/shop")
def lsn_time_of(db: Db, lsn: GivenLsn) -> None:
    """Print when a transaction ended.

    Nothing if the LSN is not a transaction's (SQL Server: fn_cdc_map_lsn_to_time).
    """
    time = open_lake_of(db).map_lsn_to_time(CommitLsn.parse(lsn))
    _print_if_any(time.isoformat() if time is not None else None)


def _print_if_any(value: object) -> None:
    if value is not None:
        print(value)
