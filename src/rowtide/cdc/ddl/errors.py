"""What DDL on captured tables can stop capture with."""

from __future__ import annotations

from rowtide.core.errors import RowtideError, numbered


@numbered
class ValuesDoNotFit(RowtideError):
    """Captured values do not fit the type that their column has now (SQL Server: 8115)."""

    number = 8115
    fact = "{count} values of {column} captured by {instance} do not fit {type_name}, its type in the source now"
    hint = (
        "Nothing is lost: all before the change is published, the log is kept. Consume it, then remove those rows with "
        "`rowtide cdc cleanup {instance}`, or disable the instance and enable it again."
    )
    count: int
    column: str
    instance: str
    type_name: str
