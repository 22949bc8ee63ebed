"""What is asked of snapshots. Pure, and light."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Annotated

from rowtide.cdc.enabling.requests import RowsPerSecond
from rowtide.core.options import Argument, Option
from rowtide.core.values import frozen


@frozen
class RepeatedSnapshot:
    """A captured table that is copied again."""

    name: Annotated[str, Argument(metavar="TABLE", help="schema.table, or a capture instance")]
    _: KW_ONLY
    where: Annotated[
        str | None, Option(help="SQL condition: only these rows, which replace those of the same keys.")
    ] = None
    rows_per_second: RowsPerSecond = None
