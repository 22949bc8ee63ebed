"""Prints docs/reference/grants.md from the rights of commands, as `make grants-reference` keeps it."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from rowtide.rights.commands import AS_OTHERS, AT_SUBSCRIBERS, COMMANDS, WITHOUT_RIGHTS, CommandRights
from rowtide.rights.purpose import Purpose

HEAD = """# Rights of commands

`rowtide grant ROLE --as PURPOSE` grants a role that exists what it needs for a purpose, in one transaction, and \
prints the statements; `--dry-run` only prints them. What the role has already is not granted again. `--group NAME` \
grants to another role, which must exist, and makes ROLE a member of it. `--table NAME` names the tables that the \
rights are about; without it they are those that rowtide uses in the database. `--as subscriber` also takes tables \
that delivery is to create. A table that a superuser owns is listed with the statement that makes ROLE its owner, \
which is not run. In Python: \
`rowtide.connect(url).grant(role, purpose)`.

```
rowtide grant watcher --as monitor --dry-run
rowtide grant watcher --as monitor
rowtide check --as monitor --db postgresql://watcher@localhost/shop
```

This page is made by `scripts/grants_reference.py` from the list in `rowtide.rights.commands`. Tests run the commands \
as a role that has the rights of a row alone, and then without each of them: the command fails, or says what is \
unknown to it, and prints the statement that grants what was missing.

## Views for monitors

A monitor has no right in rowtide's tables. `rowtide grant ROLE --as monitor` makes views of them, in schemas named \
`rowtide_monitor_` and the schema that they show, which belong to the owner of that schema. A session of a role that \
may use them, and is no member of the owner, reads them in the place of the tables. They have no values and keys of \
rows, no scripts, no logins and nothing that a database said: of an error they have the number, of a subscriber its \
URL without user and settings. Commands that show rows (`merge conflicts`, `replication browse-commands`, \
`tracking changes`) are not for monitors ([decision 32](../decisions/0032-views-for-monitors.md)).

A capture instance, article, subscription or job that is added later is seen at once. What did not exist when the \
rights were granted, such as the first publication or a tracked table in a database that only captured, takes another \
`rowtide grant`; `rowtide check --as monitor` says so. Rights of a reader are of the tables that were captured at the \
time: use a gating role (`cdc enable-table --role`) for those that follow. Disabling a feature drops its views.

## Purposes and SQL Server's roles

| purpose | SQL Server | may |
|---|---|---|
| `monitor` | `replmonitor` in the distribution database | see states, histories and errors; no rows, no logins |
| `reader` | the gating role of a capture instance; `select` on change tables | read changes |
| `publisher` | `db_owner` of the publication database | enable, publish, run the agents that read the log |
| `subscriber` | `db_owner` of the subscription database | have published tables delivered |
| `merge` | `db_owner` of each node's database | publish, subscribe and synchronise |
| `gateway` | the login of web synchronization | serve devices of what is published; not publish |
| `tracker` | `db_owner`, `view change tracking` | enable and administer change tracking |

Where SQL Server asks for `db_owner`, rowtide asks for membership in the role that owns its schemas and, to enable a \
table, in the table's owner; nothing needs a superuser. RT-1149 and RT-22904 name the statement that makes a role a \
member. Where a superuser enabled the feature nobody is made a member, as a member can do all that a superuser can: \
`rowtide grant` says so, and these commands connect as that superuser. So enable as a role that is none. Only the \
owner itself, not a member, runs `replication add-publication` and `merge add-publication` again: they replace code \
that runs with the owner's rights (RT-1127).

## Operators

Who acts, on the command line or through the monitor's `operator_url`, needs the rights of the commands: to pause, \
resume, post tracer tokens, start and stop jobs and copy tables again, and to decide about conflicts, membership in \
the owner of rowtide's schemas, which `rowtide grant ROLE --as publisher` grants, and `--as merge` at a hub. \
Validations, copies and decisions connect to subscribers as the URLs that are stored say. The audit, schema \
`rowtide_audit`, \
belongs to the same owner ([decision 48](../decisions/0048-actions-and-their-audit.md)).

## By command

*Needed*: without it the command fails, or does not see a part and says so. *Widening*: with it the command sees more.
"""
TITLES = {
    Purpose.MONITOR: "Monitor",
    Purpose.READER: "Reader",
    Purpose.PUBLISHER: "Publisher",
    Purpose.SUBSCRIBER: "Subscriber",
    Purpose.MERGE: "Merge",
    Purpose.GATEWAY: "Gateway",
    Purpose.TRACKER: "Tracker",
}
NOTES = {
    Purpose.PUBLISHER: "Who enabled a feature owns its schemas. Another role that runs its agents becomes a member.",
    Purpose.SUBSCRIBER: "The role in a subscriber's URL needs rights in the subscriber's database alone. "
    "`rowtide grant --as subscriber` grants `create` on the database, or membership in the owner "
    "of `rowtide_subscriber` once it exists; `usage` and `create` on the schemas of the tables; `select`, `insert`, "
    "`update`, `delete` and `truncate` in the tables, and membership in their owners. Replication origins and "
    "`session_replication_role` widen what it may do, and take a superuser. The owners of tables that are there need "
    "`usage` on their schemas, and `create` where a merge takes a table over: RT-1143 names it. "
    "`replication recover` is for the role that delivered: PostgreSQL lets no other finish what it prepared.",
    Purpose.MERGE: "Who merged the first table owns `rowtide_merge`; another role that synchronises becomes a member. "
    "The owner of a table needs `usage` and `create` on its schema, as the table gets its rowguids, and an index on "
    "them, with the owner's rights: RT-1143 names the owner.",
    Purpose.GATEWAY: "The role in the URL of `gateway serve`. Publish first: tables that become articles later take "
    "another `rowtide grant`. A device's rights are its partition, whatever this role may do. Where the tables belong "
    "to another role than `rowtide_merge`, the gateway connects as the owner of that schema (RT-1127).",
    Purpose.TRACKER: "Who tracked the first table owns `rowtide_tracking`; others that administer it become members. "
    "Only the owner itself, not a member, enables further tables (RT-1127): one role tracks all tables of a database.",
}


def page() -> str:
    """Return the page's text."""
    return "\n".join([HEAD, *(line for purpose in Purpose for line in _section(purpose)), *_others()]) + "\n"


def _section(purpose: Purpose) -> Iterator[str]:
    yield f"### {TITLES[purpose]}\n"
    if purpose in NOTES:
        yield f"{NOTES[purpose]}\n"
    if purpose is Purpose.SUBSCRIBER:
        yield "| at the subscriber | tables | needed |\n|---|---|---|"
        yield from (
            f"| `{command}` | {tables} | {_cell(needed)} |"
            for command, by_tables in AT_SUBSCRIBERS.items()
            for tables, needed in by_tables.items()
        )
        yield ""
    rows = [row for row in COMMANDS if row.purpose is purpose]
    if rows:
        yield "| command | needed | widening |\n|---|---|---|"
        # Commands with the same rights have one line.
        by_rights: dict[tuple[tuple[str, ...], tuple[str, ...]], list[CommandRights]] = {}
        for row in rows:
            by_rights.setdefault((row.needed, row.widening), []).append(row)
        yield from map(_row, by_rights.values())
        yield ""


def _row(rows: list[CommandRights]) -> str:
    names = ", ".join(f"`{row.command}`" for row in rows)
    return f"| {names} | {_cell(rows[0].needed)} | {_cell(rows[0].widening)} |"


def _others() -> Iterator[str]:
    yield "### Without a row\n"
    yield f"These commands ask no database: {', '.join(f'`{name}`' for name in sorted(WITHOUT_RIGHTS))}.\n"
    yield "These run until they are stopped, and need at least the rights of another one:\n"
    yield "| command | as |\n|---|---|"
    yield from (f"| `{name}` | `{other}` |" for name, other in sorted(AS_OTHERS.items()))


def _cell(rights: tuple[str, ...]) -> str:
    return "; ".join(right if " on " not in right else f"`{right}`" for right in rights)


if __name__ == "__main__":
    sys.stdout.write(page())
