"""Errors of rights at a subscriber: whose code would run with whose rights."""

from __future__ import annotations

from rowtide.core.errors import Denied


class TableOwnerNotHeld(Denied, number=7190):
    """A table's triggers, defaults and checks run as its owner, which the agent's role must be able to act for."""

    fact = """table {table} at subscriber {subscriber} belongs to role {owner}, whose triggers, defaults and checks
        would run with the rights of role {role}, which is not a member of it"""
    hint = """At the subscriber, run `grant {quoted_owner} to {quoted_role}`; or name {owner} in the subscriber's URL;
        or say that the role is trusted by `--run-as agent`."""
    table: str
    owner: str
    role: str
    subscriber: str
    quoted_owner: str
    quoted_role: str


class OwnerTriggersDeferred(Denied, number=7191):
    """Up to PostgreSQL 17, deferred triggers run at commit with the rights of the session."""

    fact = "the transaction would run code of another role with the agent's rights at its commit: {found}"
    hint = """Run `alter function ... security definer` for the trigger's function, use PostgreSQL 18, or say that the
        tables' owners are trusted by `--run-as agent`."""
    found: str


class ProcedureOwnerNotTrusted(Denied, number=7194):
    """A custom procedure belongs to a role that could replace it, and is neither the table's owner nor the agent."""

    fact = "procedure {procedure}, which delivers changes of {table}, belongs to role {owner}, which could replace it"
    hint = """Give it to the role of the subscriber's URL, `alter procedure {procedure} owner to ...`, or say that the
        role is trusted by `--run-as agent`."""
    procedure: str
    owner: str
    table: str


class PartitionsOfOthers(Denied, number=7195):
    """Code of a partition's owner would run with the rights of the table's owner, or of the agent."""

    fact = """table {table} at the subscriber is written with the rights of role {owner}, but partitions or descendants
        of it belong to {others}"""
    hint = """Give them to the table's owner, `alter table ... owner to`, or say that their owners are trusted by
        `--run-as agent`."""
    table: str
    owner: str
    others: str
