"""Prints docs/reference/diagnosis.md from the codes of results, as `make diagnosis-reference` keeps it."""

from __future__ import annotations

import sys

from rowtide.diagnosis import Area, Code

HEAD = """# Results of `check`, `health` and `status`

[`rowtide check`](check.md) and [`rowtide health`](health.md) print results of one diagnosis of a database, and the
`status` commands repeat on stderr those that are not healthy. A result has

| field | meaning |
|---|---|
| `state` | `failing`: it does not work or cannot begin, or changes are lost; `warning`: it works, and will fail \
if nobody acts; `unknown`: a right, a package or a file is missing, so nothing is known of it; `healthy`: it works, or \
a note of how it behaves here |
| `code` | what is said, of the list below: the same in every version, while messages may become better |
| `area` | the part of rowtide that it is about |
| `subject` | the server, role, table, slot, subscription, folder, … that it is said of |
| `message` | the fact, with names and numbers |
| `measures` | values behind the message, by name: bytes (`…_bytes`), seconds (`…_s`), bytes per second \
(`…_bytes_per_s`), numbers |
| `remediation` | what to do: SQL that runs as it is printed (a comment says as which role), a command with the \
database in `ROWTIDE_DB`, or advice; empty if there is nothing to do |

In Python they are `rowtide.CheckResult`. Programs compare `code` and `subject`, never messages. Codes that end with
`_healthy` say that a part works, and only `health` lists them; those that end with `_unknown` that its facts could not
be read. `check` lists the others, notes too. This page is made from the code by `scripts/diagnosis_reference.py`."""

TITLES = {
    Area.DATABASE: "The database",
    Area.SERVER: "The server",
    Area.ACCESS: "Roles and access",
    Area.TABLES: "Tables",
    Area.LOG: "Log and slot",
    Area.CAPTURE: "Capture and targets",
    Area.REPLICATION: "Transactional replication",
    Area.MERGE: "Merge replication",
    Area.TRACKING: "Change tracking",
    Area.DISK: "Folders and disks",
}


def page() -> str:
    """Return the page's text."""
    return "\n".join([HEAD, *map(_section, Area)]) + "\n"


def _section(area: Area) -> str:
    rows = (f"| `{code}` | {code.meaning} |" for code in Code if code.area is area)
    return "\n".join([f"\n## {TITLES[area]}\n", "| code | meaning |", "|---|---|", *rows])


if __name__ == "__main__":
    sys.stdout.write(page())
