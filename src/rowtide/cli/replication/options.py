"""Arguments and options shared by commands of `rowtide replication`."""

from __future__ import annotations

from typing import Annotated

from rowtide.core.options import Argument

SomePublication = Annotated[str | None, Argument(metavar="PUBLICATION", help="default: all")]
