"""Arguments and options shared by commands of `rowtide merge`."""

from __future__ import annotations

from typing import Annotated

import typer

from rowtide.cli.options import lasting
from rowtide.databases.run_as import RunAs

HubDb = Annotated[
    str,
    typer.Option(
        "--db",
        envvar="ROWTIDE_DB",
        help="The publisher, the hub: sqlite:///folder/file.db, postgresql://user@host/name",
        show_default=False,
        callback=lasting,
    ),
]
Publication = Annotated[str, typer.Argument(metavar="PUBLICATION", help="a publication's name")]
ArticleName = Annotated[str, typer.Argument(metavar="ARTICLE", help="an article's name, or its table")]
SomePublication = Annotated[str | None, typer.Argument(metavar="[PUBLICATION]", help="default: all")]
Subscriber = Annotated[
    str,
    typer.Option(
        "--subscriber",
        help="The subscriber's database: sqlite:///folder/file.db, postgresql://user@host/name",
        callback=lasting,
    ),
]
SomeSubscriber = Annotated[
    str | None,
    typer.Option(
        "--subscriber",
        help="The subscriber's database: sqlite:///folder/file.db, postgresql://user@host/name",
        callback=lambda url: None if url is None else lasting(url),
        show_default=False,
    ),
]
HostName = Annotated[
    str | None, typer.Option("--host-name", help="What host_name() is in filters.", show_default=False)
]
Login = Annotated[str | None, typer.Option("--login", help="What suser_name() is in filters.", show_default=False)]
_RUN_AS = (
    "With whose rights triggers, defaults, checks and other code of tables of other roles run that {node} writes on "
    "PostgreSQL: owner, or agent, whose owners are trusted."
)
HubRunAs = Annotated[RunAs, typer.Option("--run-as", help=_RUN_AS.format(node="the publisher"))]
NewHubRunAs = Annotated[
    RunAs | None, typer.Option("--run-as", help=_RUN_AS.format(node="the publisher"), show_default="as it is")
]
SubscriberRunAs = Annotated[RunAs, typer.Option("--run-as", help=_RUN_AS.format(node="the subscriber"))]

StatementTimeout = Annotated[
    float,
    typer.Option("--statement-timeout", metavar="SECONDS", min=0.01, help="Of a statement in the subscriber's file."),
]
MaxRowBytes = Annotated[
    int, typer.Option("--max-row-bytes", min=1000, max=1_000_000_000, help="Of a row that the subscriber uploads.")
]
MaxUploadRows = Annotated[int, typer.Option("--max-upload-rows", min=1, help="That are uploaded at once.")]
MaxUploadBytes = Annotated[
    int, typer.Option("--max-upload-bytes", min=1000, help="Of all rows that are uploaded at once.")
]
