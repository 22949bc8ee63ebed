"""Arguments and options shared by commands of `rowtide replication`."""

from __future__ import annotations

from typing import Annotated

from rowtide.core.options import Argument, Option

SomeSubscriber = Annotated[
    str | None, Option("--subscriber", help="The subscriber's database; default: all.", show_default=False)
]
SomePublication = Annotated[str | None, Argument(metavar="PUBLICATION", help="default: all")]
