"""Statements and commands in hints of errors, run as they are printed by the role that they name: the error is gone.

They are those that anybody can run at once. What only a person can do (restart a server, free a disk, choose between
two ways) and what asks an agent to do its work is not among them; that commands are there with their options is
compared for all (`tests/unit/docs/test_pages.py`).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from sqlalchemy.engine import make_url

from builders.capture.captured_databases import LoggedDatabase
from builders.commands.checks import run_line, run_statements
from builders.commands.command_lines import Ended, rowtide
from rowtide.databases.postgres.quoting import quote
from rowtide.findings.finding import Command, Sql

ITEM = "create table item (id int primary key, name text)"
TAKEN = ("create role {owner}", "alter table item owner to {owner}")
RIGHTS = (
    "grant create on database {database} to {role}",
    "grant usage, create on schema public to {role}",
    "grant all on item to {role}",
)


@dataclass(frozen=True, slots=True)
class Refused:
    """A command that an error refuses, after others; LAKE stands for the lake.

    `statements` are run before by a superuser; `as_role`: the commands are run by a role without rights. `chosen` is
    put for the words in capitals of a hint.
    """

    number: int
    command: str
    before: tuple[str, ...] = ()
    statements: tuple[str, ...] = ()
    as_role: bool = False
    chosen: dict[str, str] = field(default_factory=dict)


TRACK = "tracking enable item"
CHANGES = "tracking changes item --format jsonl"
ENABLE = "cdc enable-db --lake LAKE"
REFUSED = [
    Refused(1105, ENABLE, statements=RIGHTS, as_role=True),
    Refused(8150, "merge add-article field item", ("merge add-publication field",), (*TAKEN, *RIGHTS), as_role=True),
    Refused(6106, CHANGES, (TRACK,), ("drop trigger {trigger} on item",)),
    Refused(22105, CHANGES, ("tracking enable other",)),
    Refused(22901, "cdc status", chosen={"PATH": "LAKE"}),
    Refused(14013, "replication status", chosen={"NAME": "shop", "PATH": "LAKE"}),
    Refused(22997, "cdc change-job cleanup threshold=100", (ENABLE,)),
    Refused(4109, "cdc table-rules", (ENABLE,), ("drop table cdc.targets",), chosen={"PATH": "LAKE"}),
    Refused(
        9001,
        "cdc add-target house public_item --path LAKE-2",
        (ENABLE, "cdc enable-table item", "cdc add-target house public_item --path LAKE-1"),
    ),
    Refused(6104, TRACK + " --storage side", (TRACK,)),
]


@pytest.mark.parametrize("refused", REFUSED, ids=lambda refused: f"RT-{refused.number}")
def test_an_error_is_gone_once_its_hint_is_done(
    logged: LoggedDatabase, make_role: Callable[[str], str], refused: Refused
) -> None:
    role = make_role("login")
    asking = make_url(logged.url).set(username=role).render_as_string(hide_password=False)
    url = asking if refused.as_role else logged.url
    logged.execute(ITEM, "create table other (id int primary key)")
    of_tables = [statement for statement in refused.statements if statement in (*TAKEN, *RIGHTS)]
    of_others = [statement for statement in refused.statements if statement not in of_tables]
    run_all(logged, of_tables, role)
    for command in refused.before:
        ended = run(logged, command, url)
        assert ended.code == 0, ended
    run_all(logged, of_others, role)

    printed = run(logged, refused.command, url).errors
    assert printed.startswith(f"RT-{refused.number}: "), printed
    found = re.findall(r"`((?:rowtide|alter|grant|create) [^`]+)`", printed)
    assert found, printed
    if found[0].startswith("rowtide"):
        words = [refused.chosen.get(word, word) for word in shlex.split(found[0])]
        run_line(Command(with_lake(logged, shlex.join(words))), url)
    else:
        run_statements(Sql((f"{found[0]};",)), logged.url)
    assert f"RT-{refused.number}: " not in run(logged, refused.command, url).errors
    logged.execute(f"drop owned by {quote(role)} cascade")
    if set(TAKEN) & set(refused.statements):
        owner = quote(f"{role} owner")
        logged.execute(f"drop owned by {owner} cascade", f"drop role {owner}")


def run(logged: LoggedDatabase, command: str, url: str) -> Ended:
    return rowtide(*shlex.split(with_lake(logged, command)), "--db", url)


def with_lake(logged: LoggedDatabase, command: str) -> str:
    return command.replace("LAKE", str(logged.lake))


def run_all(logged: LoggedDatabase, statements: list[str], role: str) -> None:
    if not statements:
        return
    triggers = logged.execute("select tgname from pg_trigger where tgrelid = 'item'::regclass order by 1")
    names = {
        "role": quote(role),
        "owner": quote(f"{role} owner"),
        "database": quote(str(make_url(logged.url).database)),
        "trigger": quote(triggers[0][0]) if triggers else "",
    }
    logged.execute(*(statement.format(**names) for statement in statements))
