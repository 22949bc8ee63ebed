"""Arguments and options shared by commands of `rowtide replication`."""

from __future__ import annotations

from typing import Annotated

from rowtide.core.options import Argument, Option
from rowtide.databases.run_as import RunAs
from rowtide.replication.conflicts import Resolver
from rowtide.replication.subscription_settings import MOST_IN_BATCH, MOST_STREAMS, SettingsChanges

Publication = Annotated[str, Argument(metavar="PUBLICATION", help="a publication's name")]
Subscriber = Annotated[
    str,
    Option(
        "--subscriber",
        help="The subscriber's database: postgresql://user@host/name, without a password, or sqlite:///folder/file.db",
    ),
]
SomeSubscriber = Annotated[
    str | None, Option("--subscriber", help="The subscriber's database; default: all.", show_default=False)
]
Streams = Annotated[
    int | None,
    Option(
        "--streams, --subscription-streams",
        min=1,
        max=MOST_STREAMS,
        help="Connections that a batch is divided among; 1 at first.",
        show_default=False,
    ),
]
CommitBatchSize = Annotated[
    int | None,
    Option(
        min=1,
        max=MOST_IN_BATCH,
        help="Source transactions in a transaction at the subscriber; 10,000 at first.",
        show_default=False,
    ),
]
CommitBatchThreshold = Annotated[
    int | None,
    Option(
        min=1,
        max=MOST_IN_BATCH,
        help="Commands after which a batch ends with its source transaction; 100,000 at first.",
        show_default=False,
    ),
]
SkippedErrors = Annotated[
    str | None,
    Option(
        "--skip-errors",
        metavar="N:N",
        help='Leave out commands with these errors: 2601, 2627, 547, 515, 20598 or SQLSTATEs; "": none.',
        show_default=False,
    ),
]
SomePublication = Annotated[str | None, Argument(metavar="PUBLICATION", help="default: all")]


Conflicts = Annotated[
    Resolver | None,
    Option(
        help="What is done about conflicts with what others write to the subscriber's tables; at first stop where the "
        "subscriber has these tables from others, too, or delivers them back, else none: they are not looked for.",
        show_default=False,
    ),
]


RunRowsAs = Annotated[
    RunAs | None,
    Option(
        "--run-as",
        help="Whose rights the triggers, defaults and checks of the subscriber's tables have: owner: those of each "
        "table's owner, as at first; agent: those of the role in the subscriber's URL, with which the owners are "
        "trusted.",
        show_default=False,
    ),
]


def given_settings(
    streams: int | None,
    commit_batch_size: int | None,
    commit_batch_threshold: int | None,
    skip_errors: str | None,
    conflicts: Resolver | None = None,
    run_as: RunAs | None = None,
) -> SettingsChanges:
    """Return the settings that were given."""
    given = SettingsChanges()
    if streams is not None:
        given["streams"] = streams
    if commit_batch_size is not None:
        given["commit_batch_size"] = commit_batch_size
    if commit_batch_threshold is not None:
        given["commit_batch_threshold"] = commit_batch_threshold
    if skip_errors is not None:
        given["skip_errors"] = skip_errors
    if conflicts is not None:
        given["conflicts"] = conflicts
    if run_as is not None:
        given["run_as"] = run_as
    return given
