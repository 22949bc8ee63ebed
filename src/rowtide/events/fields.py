"""Types of events' fields, with their units, as the reference page lists them."""

from __future__ import annotations

from typing import Annotated

Seconds = Annotated[float, "seconds"]
Bytes = Annotated[int, "bytes"]
Rows = Annotated[int, "rows"]
RowsPerSecond = Annotated[int, "rows a second"]
Milliseconds = Annotated[int, "milliseconds"]
Count = Annotated[int, "count"]
