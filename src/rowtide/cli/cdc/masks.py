"""`rowtide cdc`: update masks."""

from __future__ import annotations

from typing import Annotated

import click

from rowtide.cli.groups import CommandTable
from rowtide.cli.options import Db, InstanceName
from rowtide.core import mask as masks
from rowtide.core.options import Argument
from rowtide.handle import connect

app = CommandTable()

ColumnName = Annotated[str, Argument(metavar="COLUMN", help="a captured column, letter by letter")]
Mask = Annotated[str, Argument(metavar="MASK", help="an update mask in hexadecimal, as `changes` prints it")]


@app.command(
    name="has-column-changed",
    epilog="Example: rowtide cdc has-column-changed public_orders status 0x06 --db postgresql://localhost/shop",
)
def print_column_changed(db: Db, instance: InstanceName, column: ColumnName, mask: Mask) -> None:
    """Print 1 if a column's bit is set in a mask, else 0 (SQL Server: fn_cdc_has_column_changed)."""
    print(int(connect(db).cdc.has_column_changed(instance, column, _parse_mask(mask))))


@app.command(name="is-bit-set", epilog="Example: rowtide cdc is-bit-set 2 0x06")
def print_bit_set(position: Annotated[int, Argument(help="a column's ordinal, from 1")], mask: Mask) -> None:
    """Print 1 if a bit is set in a mask, else 0 (SQL Server: fn_cdc_is_bit_set)."""
    print(int(masks.is_bit_set(position, _parse_mask(mask))))


@app.command(epilog="Example: rowtide cdc column-ordinal public_orders status --db postgresql://localhost/shop")
def column_ordinal(db: Db, instance: InstanceName, column: ColumnName) -> None:
    """Print a column's ordinal, its bit in masks.

    Nothing if there is no such column (SQL Server: fn_cdc_get_column_ordinal).
    """
    ordinal = connect(db).cdc.get_column_ordinal(instance, column)
    if ordinal is not None:
        print(ordinal)


def _parse_mask(text: str) -> bytes:
    try:
        return bytes.fromhex(text.lower().removeprefix("0x"))
    except ValueError as error:
        raise click.BadParameter(f"{text} is no hexadecimal number of whole bytes", param_hint="MASK") from error
