"""Arguments and options shared by commands of `rowtide merge`."""

from __future__ import annotations

from typing import Annotated

from rowtide.cli.options import lasting
from rowtide.core.options import Argument, Option
from rowtide.databases.run_as import RunAs

HubDb = Annotated[
    str,
    Option(
        "--db",
        envvar="ROWTIDE_DB",
        help="The publisher, the hub: sqlite:///folder/file.db, postgresql://user@host/name",
        show_default=False,
        check=lasting,
    ),
]
Publication = Annotated[str, Argument(metavar="PUBLICATION", help="a publication's name")]
ArticleName = Annotated[str, Argument(metavar="ARTICLE", help="an article's name, or its table")]
SomePublication = Annotated[str | None, Argument(metavar="PUBLICATION", help="default: all")]
Subscriber = Annotated[
    str,
    Option(
        "--subscriber",
        help="The subscriber's database: sqlite:///folder/file.db, postgresql://user@host/name",
        check=lasting,
    ),
]
SomeSubscriber = Annotated[
    str | None,
    Option(
        "--subscriber",
        help="The subscriber's database: sqlite:///folder/file.db, postgresql://user@host/name",
        check=lasting,
        show_default=False,
    ),
]
HostName = Annotated[str | None, Option("--host-name", help="What host_name() is in filters.", show_default=False)]
Login = Annotated[str | None, Option("--login", help="What suser_name() is in filters.", show_default=False)]
_RUN_AS = (
    "With whose rights triggers, defaults, checks and other code of tables of other roles run that {node} writes on "
    "PostgreSQL: owner, or agent, whose owners are trusted."
)
HubRunAs = Annotated[RunAs, Option("--run-as", help=_RUN_AS.format(node="the publisher"))]
NewHubRunAs = Annotated[
    RunAs | None, Option("--run-as", help=_RUN_AS.format(node="the publisher"), show_default="as it is")
]
SubscriberRunAs = Annotated[RunAs, Option("--run-as", help=_RUN_AS.format(node="the subscriber"))]

StatementTimeout = Annotated[
    float,
    Option("--statement-timeout", metavar="SECONDS", min=0.01, help="Of a statement in the subscriber's file."),
]
MaxRowBytes = Annotated[
    int, Option("--max-row-bytes", min=1000, max=1_000_000_000, help="Of a row that the subscriber uploads.")
]
MaxUploadRows = Annotated[int, Option("--max-upload-rows", min=1, help="That are uploaded at once.")]
MaxUploadBytes = Annotated[int, Option("--max-upload-bytes", min=1000, help="Of all rows that are uploaded at once.")]
