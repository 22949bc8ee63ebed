"""Errors of actions and their audit."""

from __future__ import annotations

from rowtide.core.errors import AlreadyExists, Denied, Invalid, NotFound, RowtideError


class ActionNotRecorded(Denied, number=1226):
    """An action was not done, since its entry in the audit cannot be written, as in a standby or a file to be read."""

    fact = "{action} was not done: its entry in the audit cannot be written: {reason}"
    hint = "{advice} Then repeat the action."
    action: str
    reason: str
    advice: str


class ActionResultNotRecorded(RowtideError, number=1227):
    """An action has ended, and its result cannot be written into the audit."""

    fact = "{action} has ended ({outcome}), but its result cannot be written into the audit: {reason}"
    hint = "Its entry, {action_id}, stays without an end. Look whether it was done before you repeat it."
    action: str
    outcome: str
    action_id: str
    reason: str


class ActionIdInvalid(Invalid, number=1228):
    """The id of an action is no UUID."""

    fact = "the action's id is no UUID"
    hint = "Send a new UUID for each action, and the same one when the action is repeated."


class ActionUnknown(NotFound, number=1229):
    """No action has this name."""

    fact = "no action is named {name}"
    hint = "The names are those of commands: {known}."
    name: str
    known: str


class ActionIncomplete(Invalid, number=1230):
    """An action lacks an argument, or has one that it does not take."""

    fact = "{action} cannot be done with these arguments: {problem}"
    hint = "The command of that name lists its arguments with --help."
    action: str
    problem: str


class ActionIdTaken(AlreadyExists, number=1231):
    """Another action has this id already."""

    fact = "action {action_id} is {action} of {subject}, not what is asked for now"
    hint = "Send a new UUID for each action."
    action_id: str
    action: str
    subject: str


class AuditOwnerNeeded(Denied, number=1235):
    """The audit is to be created for the owner of rowtide's schemas, whom the role may not act as."""

    fact = "the audit of this database is to belong to {owner}, who owns what rowtide has made"
    hint = "To administer what {owner} owns, become a member: `{membership}`."
    owner: str
    membership: str
