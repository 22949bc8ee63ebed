"""The actions that pages offer: what a person reads before they act. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from shlex import quote

from rowtide.actions.entries import SUBJECTS, ActionKind
from rowtide.core.values import frozen


@frozen
class OfferedAction:
    """An action as its confirmation describes it.

    `typed` is the argument whose value has to be typed, `database` for the database's name; `options` are flags, with
    what they do; `choices` are arguments that a person chooses, `texts` those that they write.
    """

    label: str
    says: str
    typed: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    choices: Mapping[str, Sequence[str]] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)


OFFERED: Mapping[ActionKind, OfferedAction] = {
    ActionKind.PAUSE: OfferedAction(
        "Pause", "Delivery stops. Undelivered changes are kept within the retention; after it, it starts again."
    ),
    ActionKind.RESUME: OfferedAction(
        "Resume", "Delivery continues when the agent runs, also to a subscriber whose agent stopped with an error."
    ),
    ActionKind.TRACER_TOKEN: OfferedAction(
        "Post a tracer token", "A token is written to the log; each subscriber's latency is measured with it."
    ),
    ActionKind.VALIDATE: OfferedAction(
        "Validate",
        "The rows of all subscribers are compared with the published ones. It reads the tables, and takes a while.",
        options={"checksum": "Compare values too, not only the numbers of rows"},
    ),
    ActionKind.REINITIALIZE: OfferedAction(
        "Reinitialize",
        "All tables are copied again. Until the copy is done the subscriber's tables are dropped or incomplete; "
        "changes that were made there are lost.",
        typed="publication",
    ),
    ActionKind.RESOLVE: OfferedAction(
        "Resolve",
        "The chosen side's rows become the subscriber's own change, which it delivers to others.",
        options={
            "over_later_changes": "Also replace rows that have changed since",
            "again": "Also change a decision that was made before",
        },
        choices={"winner": ("delivered", "present")},
    ),
    ActionKind.START_JOB: OfferedAction("Start", "The running agent starts the job."),
    ActionKind.STOP_JOB: OfferedAction(
        "Stop", "The job stops after its current cycle or table. It runs again when it is started or on its schedule."
    ),
    ActionKind.REINITIALIZE_CAPTURE: OfferedAction(
        "Reinitialize capture",
        "Capture continues with a new slot, in the next epoch. The changes in between are lost, which is recorded as "
        "a gap: queries that overlap it are refused.",
        typed="database",
    ),
    ActionKind.VALIDATE_MERGE: OfferedAction(
        "Validate",
        "The subscriber's rows are compared with the publisher's. Changes not yet exchanged count as differences.",
        options={"checksum": "Compare values too, not only the numbers of rows"},
    ),
    ActionKind.REINITIALIZE_MERGE: OfferedAction(
        "Reinitialize",
        "The subscriber's tables are copied again. What was changed there and not synchronised is lost, unless it is "
        "uploaded first.",
        typed="publication",
        options={"upload_first": "Upload the subscriber's changes first"},
    ),
    ActionKind.RESOLVE_MERGE: OfferedAction(
        "Resolve",
        "The chosen version becomes the publisher's own change, for all nodes.",
        options={"over_later_changes": "Also replace what has changed since; that becomes a conflict"},
        choices={"winner": ("publisher", "subscriber")},
    ),
    ActionKind.DECIDE: OfferedAction(
        "Decide",
        "The chosen side's rows are written, at the publisher or at the subscriber, and go to all nodes. Of a cause, "
        "all open conflicts are decided.",
        options={
            "over_later_changes": "Also replace rows that have changed since",
            "again": "Also change decisions that were made before",
        },
        choices={"choice": ("keep", "otherwise", "publisher", "subscriber")},
    ),
    ActionKind.COMMENT: OfferedAction(
        "Comment",
        "The comment is kept with the conflict, of a cause with all of its conflicts. The audit does not repeat it.",
        texts={"text": "What others should know"},
    ),
}
_NAMED = frozenset(
    {"subscriber", "winner", "choice", "reason", "checksum", "again", "over_later_changes", "upload_first"}
)
"""Arguments that a command line names; the others have their place."""


def path_of(kind: ActionKind) -> str:
    """Return the part of a path that names an action."""
    return kind.replace(" ", "/")


def kind_of(segments: Sequence[str]) -> ActionKind | None:
    """Return the action that the segments of a path name."""
    named = " ".join(segments)
    return ActionKind(named) if named in set(ActionKind) else None


def accepted(kind: ActionKind, given: Mapping[str, str]) -> dict[str, str | bool]:
    """Return those of the fields of a form or query that an action takes, with its flags as such."""
    offered = OFFERED[kind]
    texts = {*SUBJECTS[kind], *offered.choices, *offered.texts}
    found: dict[str, str | bool] = {name: value for name, value in given.items() if name in texts and value}
    return found | {name: True for name in offered.options if given.get(name)}


def command_of(kind: ActionKind, arguments: Mapping[str, str | bool], database: str) -> str:
    """Return the command line that does the same; a page does not know the whole URL of a subscriber."""
    words = ["rowtide", *kind.split()]
    for name, value in arguments.items():
        if name not in _NAMED:
            words.append(quote(str(value)))
        else:
            words.append(f"--{name.replace('_', '-')}")
            words += [] if value is True else ["URL" if name == "subscriber" else quote(str(value))]
    return " ".join([*words, "--db", quote(database)])
