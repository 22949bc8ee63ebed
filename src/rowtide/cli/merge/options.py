"""Arguments and options shared by commands of `rowtide merge`."""

from __future__ import annotations

from typing import Annotated

from rowtide.core.options import Argument, Option
from rowtide.databases.urls import lasting

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
ArticleName = Annotated[str, Argument(metavar="ARTICLE", help="an article's name, or its table")]
SomePublication = Annotated[str | None, Argument(metavar="PUBLICATION", help="default: all")]
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
