"""Prints docs/reference/objects.md from the catalogues of databases that rowtide has set up, as `make object-reference`
keeps it. An object that has no reason here stops it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from builders.servers.made_objects import DATABASES, MadeObject, databases_of_all_kinds, read_objects

HEAD = """# Objects in PostgreSQL

What rowtide creates in your databases. This page is made by `scripts/object_reference.py` from the catalogues of a
publisher with capture, a distribution database, a subscriber, a hub and a node of a merge, and a tracked database; a
test compares it on PostgreSQL 16 and 18. Indexes, constraints and types of rowtide's own tables are omitted, as are
the tables that an initial copy makes. `<n>`, `<id>` and `<hash>` stand for numbers, which differ between databases;
`app` is the schema of your tables.

Each object belongs to the role that ran the command which created it; the event triggers to the role that may create
them, a superuser as a rule, with the table `rowtide.control`. **Public** is what every role may do, by grants that
rowtide makes; empty is nothing. A function that triggers call needs no right to execute when it fires, only where a
trigger is created: those of row triggers of partitioned tables stay executable, since the server checks that of the
role that adds a partition, but their schemas are not open to the public. **Runs as** is whose rights a function has:
each that has its owner's finds names in `pg_catalog` and then in `pg_temp` only."""

WHY: Sequence[tuple[str, str]] = (
    (
        r"schema (rowtide|cdc)",
        "Definitions and state of the log reader and of capture; readers of a lake look them up.",
    ),
    (r"(schema|table) rowtide_audit.*", "Who did what (`rowtide audit`); made with the first action."),
    (r"schema .*", "Holds a feature's objects."),
    (r"event trigger rowtide_note_new_tables", "Notes new tables for the rules of `enable-table --with-new-tables`."),
    (r"event trigger .*", "Write DDL on captured and published tables into the log."),
    (r"publication .*", "What the log's stream has: all members, and each table by itself."),
    (r"replication slot .*", "Keeps the log until it has been read."),
    (r"function cdc.refuse_truncate", "Refuses truncates for `enable-table --truncate refuse`."),
    (r"function cdc.*", "Enable new tables of rules in the transaction that creates them."),
    (r"function rowtide.(announce|refuse).*", "Refuse truncates of single partitions, which the log does not carry."),
    (r"function rowtide.rowtide.*", "What the event triggers call."),
    (
        r"function rowtide_subscriber.(deleted|released).*",
        "By last commit time: record keys and values that rows lose.",
    ),
    (r"(function|procedure) rowtide_subscriber.*", "Delivery calls them in its own session."),
    (r"function rowtide_owners.*", "Write into a table with its owner's rights, called by rowtide's role alone."),
    (r"function rowtide_merge.(partition_members|pending_changes)", "What the documented views call, as who queries."),
    (r"function rowtide_merge.*", "What the triggers of merged tables call: log changes, keep rowguids."),
    (r"function rowtide_tracking.stamp.*", "Stamp rows as the writer; shared by all tables with stamps in their rows."),
    (r"function rowtide_tracking.*", "Write stamps and tombstones, which no writer may change itself."),
    (r"table (cdc.(consumers)|rowtide.(source|members)|cdc.*)", "Definitions, jobs and history of capture."),
    (r"table rowtide.conflict_comments", "Comments on conflicts of delivery; made with the first."),
    (r"table rowtide_merge.MSmerge_conflict_notes", "Comments and decisions on conflicts; made with the first."),
    (r"table rowtide_merge.MSmerge_devices", "Devices that synchronise over HTTP; made with the first."),
    (r"table rowtide.control", "What is inserted here is an event of the log: nobody but the log reader may write it."),
    (r"table rowtide\..*", "Members of the log, and what was changed of their tables."),
    (
        r"(table|sequence) distribution.*",
        "Publications, articles, subscriptions and history (SQL Server: distribution).",
    ),
    (r"table rowtide_subscriber.MSorigins", "Marks delivered transactions; it has a secret."),
    (r"table rowtide_subscriber.*", "Progress, definitions and kept conflicts of a subscriber."),
    (r"table rowtide_merge.*", "Metadata of a merge node: generations, lineages, subscriptions, sessions."),
    (r"view .*rowtide_format", "The number of the format of what is in the schema."),
    (r"view rowtide_merge.*", "The metadata under SQL Server's names and columns."),
    (r"table rowtide_tracking.*", "Anchors, tombstones, and stamps that are beside their rows."),
    (r"sequence .*", "Numbers of the tables."),
    (r"column app.*rowguid", "Identifies a row at all nodes; dropped with the article."),
    (r"column app.*__sys.*", "Stamps in the rows (`--storage row`)."),
    (r"index app.*", "Finds rows by rowguid, or by stamp."),
    (r"trigger app.*: MSmerge.*", "Log the changes of a merged table; on each partition, too."),
    (r"trigger app.*: __sysTracking.*", "Track a table; on each partition for truncates."),
    (r"trigger app.*: rowtide_(deleted|emptied|moved|released)", "By last commit time: record keys and values."),
    (r"trigger app.*: rowtide_.*", "Announce or refuse truncates."),
    (r"trigger cdc.*", "Enables a noted table when its transaction commits."),
)
_TABLE = """
| Object | Kind | In | Public | Runs as | Path | Why |
|---|---|---|---|---|---|---|"""


def why(made: MadeObject) -> str:
    """Return why an object is created."""
    for pattern, reason in WHY:
        if re.fullmatch(pattern, f"{made.kind} {made.name}"):
            return reason
    raise LookupError(f"scripts/object_reference.py does not say why there is {made}")


def page(found: Mapping[str, Sequence[MadeObject]]) -> str:
    """Return the page of the objects of databases: a line for those that differ in their names alone."""
    places: dict[MadeObject, list[str]] = {}
    for name in DATABASES:
        for made in found[name]:
            places.setdefault(made, []).append(name)
    lines: dict[tuple[str, ...], list[str]] = {}
    for made, databases in sorted(places.items()):
        schema = made.name.partition(".")[0] if "." in made.name else ""
        key = (made.kind, schema, ", ".join(databases), made.public, made.rights, made.path, why(made))
        lines.setdefault(key, []).append(f"`{made.name}`")
    rows = (
        f"| {', '.join(names)} | {kind} | {databases} | {public} | {rights} | {path and f'`{path}`'} | {reason} |"
        for (kind, _, databases, public, rights, path, reason), names in lines.items()
    )
    return "\n".join([HEAD, _TABLE, *rows])


def read(version: Literal[16, 18]) -> str:
    """Return the page of a server's version."""
    with databases_of_all_kinds(version) as urls:
        return page({name: read_objects(url) for name, url in urls.items()})


if __name__ == "__main__":
    sys.stdout.write(read(16 if sys.argv[1:] == ["16"] else 18) + "\n")
