"""Every action is a command, is offered by pages, and can be done."""

from __future__ import annotations

import shlex

import click
import pytest

from rowtide.actions.database_actions import prepare
from rowtide.actions.entries import SUBJECTS, ActionKind, ActionRequest, Channel, DeviceAction
from rowtide.cli.commands import app
from rowtide.cli.groups import _AUDITED, _OF_DEVICES
from rowtide.monitor.web.offered_actions import OFFERED, accepted, command_of, kind_of, path_of

VALUES = {"winner": "publisher", "choice": "keep", "subscriber": "sqlite:///x.db", "conflict": "17", "job": "capture"}


def given_for(kind: ActionKind) -> dict[str, str]:
    names = [*SUBJECTS[kind], *OFFERED[kind].choices, *OFFERED[kind].texts, *OFFERED[kind].options]
    found = {name: VALUES.get(name, "it's") for name in names}
    return found | ({"winner": "present"} if kind is ActionKind.RESOLVE else {})


def test_the_command_line_records_all_of_them() -> None:
    assert set(ActionKind) == _AUDITED
    assert {str(one) for one in DeviceAction if one.startswith("merge ")} == _OF_DEVICES
    assert OFFERED.keys() == SUBJECTS.keys() == set(ActionKind)


@pytest.mark.parametrize("kind", ActionKind)
def test_the_command_that_a_page_shows_is_parsed(kind: ActionKind) -> None:
    arguments = accepted(kind, {**given_for(kind), "unknown": "x"})
    line, named = (
        command_of(kind, arguments, "sqlite:///hub.db"),
        [one for one in SUBJECTS[kind] if one != "subscriber"],
    )
    feature, name, *words = shlex.split(line)[1:]
    group = app.commands[feature]
    assert isinstance(group, click.Group)
    context = group.commands[name].make_context(name, words, parent=click.Context(group))
    assert {one: str(context.params[one]) for one in named} == {one: arguments[one] for one in named}
    assert ("--subscriber URL" in line) == ("subscriber" in arguments)
    assert all(context.params[one] is True for one in OFFERED[kind].options)


@pytest.mark.parametrize("kind", ActionKind)
def test_what_a_page_accepts_can_be_done(kind: ActionKind) -> None:
    assert callable(prepare("sqlite:///hub.db", kind, accepted(kind, given_for(kind)), "anna"))
    assert kind_of(path_of(kind).split("/")) is kind


def test_an_entry_has_no_secrets_and_no_values() -> None:
    given = {
        "publication": "shop",
        "subscriber": "postgresql://u:s3cret@db/x",
        "host_name": "a customer",
        "limit": 3,
        "checksum": False,
        "reason": "by hand",
    }
    made = ActionRequest.make(ActionKind.REINITIALIZE, given, actor="anna", channel=Channel.WEB)
    assert made.subject == "shop to postgresql://u:***@db/x"
    assert made.arguments == {"host_name": "***", "limit": 3, "reason": "by hand"}
