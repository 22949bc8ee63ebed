"""Roles that enable, publish, read, merge and track need the rights of their rows, and no others."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from itertools import count
from pathlib import Path

import psycopg
import pytest
from sqlalchemy.engine import make_url

from builders.capture.captured_databases import CapturedDatabase, LoggedDatabase
from builders.commands.command_lines import Ended, rowtide
from builders.commands.command_tree import commands
from builders.servers.monitored_databases import as_role
from fixtures.servers import fresh_database
from rowtide.core.addresses import Address
from rowtide.databases.postgres.connect import libpq_url, open_engine
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.databases.postgres.errors import GrantMissing
from rowtide.databases.postgres.quoting import quote, quote_qualified
from rowtide.gateway.http_server import serving_gateway
from rowtide.gateway.hubs import Hub
from rowtide.gateway.tls import TlsOptions
from rowtide.handle import connect
from rowtide.rights.commands import AT_SUBSCRIBERS, COMMANDS
from rowtide.rights.facts import read_facts
from rowtide.rights.grants import Grant, ObjectGrant, RoleMembership, describe
from rowtide.rights.purpose import Purpose
from rowtide.rights.purpose_plans import plan_grants

MakeRole = Callable[[str], str]
NAMED = quote_qualified("The shop", "Odd \"one's")
READERS = {
    "cdc as-of INSTANCE": ["cdc", "as-of", "odd"],
    "cdc changes INSTANCE": ["cdc", "changes", "odd"],
    "cdc columns INSTANCE": ["cdc", "columns", "odd"],
    "cdc ddl-history INSTANCE": ["cdc", "ddl-history", "odd"],
    "cdc follow INSTANCE": ["cdc", "follow", "odd", "--idle-timeout", "0"],
    "cdc generate-wrapper INSTANCE": ["cdc", "generate-wrapper", "odd"],
    "cdc lsn min INSTANCE": ["cdc", "lsn", "min", "odd"],
    "cdc table-changes TABLE": ["cdc", "table-changes", NAMED],
}
MAKERS = {
    "apply FILE": Purpose.PUBLISHER,
    "cdc enable-db": Purpose.PUBLISHER,
    "merge add-publication PUBLICATION": Purpose.MERGE,
    "replication add-publication PUBLICATION": Purpose.PUBLISHER,
}
OF_ONE_TEST = {
    "cdc acknowledge CONSUMER LSN",
    "cdc apply TARGET",
    "cdc enable-table TABLE",
    "merge add-article PUBLICATION TABLE",
    "replication add-article PUBLICATION TABLE",
    "replication move-distribution URL",
    "replication recover SUBSCRIBER",
    "tracking changes TABLE",
    "tracking enable TABLE",
}
OF_OWNER = "membership in the owner of rowtide's schemas"


def test_every_row_is_of_a_test() -> None:
    """Those of monitors and of owners are run by the modules beside this one, each as it is in the table."""
    names = {command.name for command in commands()}
    elsewhere = {
        row.command
        for row in COMMANDS
        if row.purpose is Purpose.MONITOR or (row.command in names and (OF_OWNER in row.needed or not row.needed))
    }
    here = {*READERS, *MAKERS, *OF_ONE_TEST}
    assert here.isdisjoint(elsewhere)
    assert {row.command for row in COMMANDS} == here | elsewhere


def of_row(command: str) -> set[str]:
    return {right for row in COMMANDS if row.command == command for right in row.needed}


def prepare(make_role: MakeRole, logged: LoggedDatabase) -> tuple[str, str]:
    """Make a table of a role of its own, and a role without rights; return both roles."""
    owner, role = make_role("nologin"), make_role("login")
    logged.execute('create schema "The shop"')
    logged.execute(f"create table {NAMED} (id int primary key, v text)", f"alter table {NAMED} owner to {quote(owner)}")
    return owner, role


def grants_of(logged: LoggedDatabase, role: str, purpose: Purpose) -> dict[str, Grant]:
    with open_engine(logged.url).connect() as connection:
        return {describe(one): one for one in plan_grants(read_facts(connection, role, [NAMED]), purpose).needed}


def require_each(
    logged: LoggedDatabase, role: str, grants: dict[str, Grant], needed: set[str], run: Callable[[], list[Ended]]
) -> None:
    """Without each right the commands fail and name it; with all they run. What is not needed is not granted."""
    assert needed <= grants.keys()
    # In the order in which commands need them: what one has made stays for the next.
    for right in [right for right in grants if right in needed]:
        for one in needed:
            logged.execute(grants[one].revoke_from(role) if one == right else grants[one].grant_to(role))
        failed = [ended for ended in run() if ended.code != 0]
        assert failed, right
        assert grants[right].grant_to(role) in " ".join(failed[0].errors.split()).replace("`", ""), (right, failed)
        logged.execute(grants[right].grant_to(role))
    assert [ended for ended in run() if ended.code != 0] == []


def run_one(*words: str) -> list[Ended]:
    return [rowtide(*words)]


def clean(logged: LoggedDatabase, *roles: str) -> None:
    logged.execute(f"drop owned by {', '.join(map(quote, roles))} cascade")


def test_a_publisher(make_role: MakeRole, logged: LoggedDatabase) -> None:
    owner, role = prepare(make_role, logged)
    url = as_role(logged.url, role)
    grants = grants_of(logged, role, Purpose.PUBLISHER)

    def run() -> list[Ended]:
        ended = [
            rowtide("cdc", "enable-db", "--lake", str(logged.lake), "--db", url),
            rowtide("cdc", "enable-table", NAMED, "--capture-instance", "odd", "--db", url),
            rowtide("replication", "add-publication", "shop", "--db", url),
            rowtide("replication", "add-article", "shop", NAMED, "--db", url),
        ]
        # The publication stays from the time before.
        return [one for one in ended if "RT-14016" not in one.errors]

    needed = of_row("replication add-article PUBLICATION TABLE")
    assert needed == of_row("cdc enable-table TABLE") == grants.keys() > of_row("cdc enable-db")
    require_each(logged, role, grants, needed, run)
    connect(url).replication.drop_publication("shop")
    connect(url).cdc.disable_db()
    clean(logged, role, owner)


@pytest.mark.parametrize(("command", "purpose"), MAKERS.items())
def test_what_makes_schemas(make_role: MakeRole, logged: LoggedDatabase, command: str, purpose: Purpose) -> None:
    owner, role = prepare(make_role, logged)
    declared = logged.lake.with_name("declared.toml")
    declared.write_text(f"[cdc]\nlake = '{logged.lake}'\n[cdc.instances.odd]\ntable = '''{NAMED}'''\n")
    lake = ["--lake", str(logged.lake)]
    arguments = {
        "apply FILE": [str(declared), "--yes"],
        "cdc enable-db": lake,
        "replication add-publication PUBLICATION": ["shop", *lake],
    }
    words = [word for word in command.split() if not word.isupper()]
    url = as_role(logged.url, role)
    run = partial(run_one, *words, *arguments.get(command, ["shop"]), "--db", url)
    if command.startswith(("merge", "replication")):
        # What was made stays: no publication is added twice.
        run = partial(run_until_there, run)
    require_each(logged, role, grants_of(logged, role, purpose), of_row(command), run)
    if command.startswith("replication"):
        connect(url).replication.drop_publication("shop")
    elif purpose is Purpose.PUBLISHER:
        connect(url).cdc.disable_db()
    clean(logged, role, owner)


def run_until_there(run: Callable[[], list[Ended]]) -> list[Ended]:
    return [one for one in run() if "exists" not in one.errors]


def test_a_distribution_moves_with_rights_at_both_ends(
    make_role: MakeRole, logged: LoggedDatabase, server: EmbeddedServer
) -> None:
    owner, role = make_role("login replication"), make_role("login")
    name = make_url(logged.url).database
    logged.execute(f"grant create on database {name} to {quote(owner)}")
    connect(as_role(logged.url, owner)).replication.add_publication("shop", lake=str(logged.lake))
    with fresh_database(server) as elsewhere:
        there = str(make_url(elsewhere).database)
        grants: dict[str, Grant] = {
            OF_OWNER: RoleMembership(owner),
            "create on the distribution database": ObjectGrant(("create",), "database", (there,)),
        }
        words = ("replication", "move-distribution", as_role(elsewhere, role), "--db", as_role(logged.url, role))
        require_each(logged, role, grants, of_row("replication move-distribution URL"), partial(run_one, *words))
        connect(logged.url).replication.drop_publication("shop")
        with psycopg.connect(elsewhere, autocommit=True) as session:
            session.execute(f"drop owned by {quote(role)} cascade".encode())
    clean(logged, role, owner)


def test_a_reader(make_role: MakeRole, copied: CapturedDatabase) -> None:
    _, role = prepare(make_role, copied)
    gate = make_role("nologin")
    copied.cdc.enable_db(str(copied.lake))
    copied.cdc.enable_table(NAMED, role_name=gate, capture_instance="odd")
    copied.cdc.add_consumer("search", ["odd"], role_name=gate)
    copied.cdc.run(once=True)
    grants = grants_of(copied, role, Purpose.READER)
    needed = of_row("cdc changes INSTANCE")
    assert READERS.keys() == {row.command for row in COMMANDS if {*row.needed} == needed}
    assert needed == grants.keys()
    url = as_role(copied.url, role)
    for command in READERS.values():
        require_each(copied, role, grants, needed, partial(run_one, *command, "--db", url))
    assert [one for one in connect(url).check(purpose="reader") if one.state == "failing"] == []

    connect(copied.url).targets.add("copy", ["odd"], kind="current", path=str(copied.lake.with_name("target")))
    applying = partial(run_one, "cdc", "apply", "--once", "--db", url)
    assert of_row("cdc apply TARGET") == {OF_OWNER}
    # A reader is told; who has no right at all is first told those of a reader. Nobody is told to become a superuser.
    (refused,) = applying()
    assert "connect as postgres" in refused.errors
    for grant in grants.values():
        copied.execute(grant.revoke_from(role))
    copied.execute(RoleMembership("postgres").grant_to(role))
    assert [ended for ended in applying() if ended.code != 0] == []

    copied.execute(RoleMembership("postgres").revoke_from(role))
    grants = {"membership in the consumer's role": RoleMembership(gate)}
    position = str(copied.cdc.get_max_lsn())
    acknowledging = partial(run_one, "cdc", "acknowledge", "search", position, "--db", url)
    require_each(copied, role, grants, of_row("cdc acknowledge CONSUMER LSN"), acknowledging)
    clean(copied, role)


@pytest.mark.parametrize("command", AT_SUBSCRIBERS)
@pytest.mark.parametrize("is_there", [True, False])
def test_a_subscriber(
    make_role: MakeRole, logged: LoggedDatabase, server: EmbeddedServer, command: str, *, is_there: bool
) -> None:
    """Its rights are those in the subscriber's database, whose tables are another role's, or not there yet."""
    prepare(make_role, logged)
    logged.execute(f"insert into {NAMED} values (1, 'a')")
    with fresh_database(server) as url, psycopg.connect(url, autocommit=True) as session:
        subscriber = LoggedDatabase(url, logged.lake, session)
        owner, role = prepare(make_role, subscriber)
        grants = grants_of(subscriber, role, Purpose.SUBSCRIBER)
        run = SUBSCRIBING[command](logged, as_role(url, role))
        if is_there:
            # What is the owner's is written, and given an index, with its rights.
            subscriber.execute(
                'grant usage on schema "The shop" to public', f'grant create on schema "The shop" to {quote(owner)}'
            )
        else:
            subscriber.execute(f"drop table {NAMED}")
        needed = {*AT_SUBSCRIBERS[command]["tables that are there" if is_there else "tables that are created"]}
        require_each(subscriber, role, grants, needed, run)
        assert subscriber.execute(f"select id, v from {NAMED}") == [(1, "a")]
        clean(subscriber, role, owner)


def subscribe(logged: LoggedDatabase, url: str) -> Callable[[], list[Ended]]:
    replication = connect(logged.url).replication
    replication.add_publication("shop", lake=str(logged.lake))
    replication.add_article("shop", NAMED)
    adding = ("add-subscription", "shop", "--subscriber", url, "--if-exists", "truncate")

    def run() -> list[Ended]:
        ended = [rowtide("replication", *words, "--db", logged.url) for words in (adding, ("run", "--once"))]
        # The subscription stays from the time before.
        return [one for one in ended if "RT-14058" not in one.errors]

    return run


def merge(logged: LoggedDatabase, url: str) -> Callable[[], list[Ended]]:
    hub = connect(logged.url).merge
    hub.add_publication("shop")
    with pytest.raises(GrantMissing) as refused:
        hub.add_article("shop", NAMED)
    # The owner as which the rows are written lacks it, not the role that is connected.
    assert refused.value.statement.startswith('grant usage on schema "The shop" to "role ')
    logged.execute(refused.value.statement)
    hub.add_article("shop", NAMED)
    subscribing = ("add-subscription", "shop", "--subscriber", url, "--existing", "overwrite")
    syncing = ("sync", "shop", "--subscriber", url)

    def run() -> list[Ended]:
        ended = [rowtide("merge", *words, "--db", logged.url) for words in (subscribing, syncing)]
        return [one for one in ended if "RT-8014" not in one.errors]

    return run


def test_who_delivered_completes_what_was_left(make_role: MakeRole, logged: LoggedDatabase) -> None:
    """PostgreSQL lets no other role do it, whatever it is granted."""
    delivering, other = make_role("login"), make_role("login")
    with psycopg.connect(libpq_url(as_role(logged.url, delivering)), autocommit=True) as session:
        session.execute("begin; select pg_current_xact_id(); prepare transaction 'rowtide:guid:1:1:0'")
    refused = rowtide("replication", "recover", as_role(logged.url, other))
    assert refused.code == 1
    assert "the user that prepared the transaction" in refused.errors
    assert rowtide("replication", "recover", as_role(logged.url, delivering)).code == 0
    assert logged.execute("select 1 from pg_prepared_xacts where database = current_database()") == []


SUBSCRIBING = {"replication run": subscribe, "merge sync": merge}


@pytest.mark.parametrize(
    ("purpose", "command", "words"),
    [
        (Purpose.MERGE, "merge add-article PUBLICATION TABLE", ["merge", "add-article", "shop", NAMED]),
        (Purpose.TRACKER, "tracking enable TABLE", ["tracking", "enable", NAMED]),
    ],
)
def test_a_node_and_a_tracker(
    make_role: MakeRole, logged: LoggedDatabase, purpose: Purpose, command: str, words: list[str]
) -> None:
    owner, role = prepare(make_role, logged)
    url = as_role(logged.url, role)
    grants = grants_of(logged, role, purpose)
    if purpose is Purpose.MERGE:
        # As the owner a table gets rowguids and an index on them; members of the owner have its rights.
        logged.execute('grant usage on schema "The shop" to public')
        logged.execute(f'grant create on schema "The shop" to {quote(owner)}')
    assert of_row(command) == grants.keys() - ({"usage on the schema"} if purpose is Purpose.MERGE else set())

    def run() -> list[Ended]:
        before = [rowtide("merge", "add-publication", "shop", "--db", url)] if purpose is Purpose.MERGE else []
        return [*(one for one in before if "RT-8" not in one.errors), rowtide(*words, "--db", url)]

    require_each(logged, role, grants, of_row(command), run)
    logged.execute(f"drop table {NAMED} cascade")
    clean(logged, role, owner)


def test_who_reads_tracked_tables_is_a_member(make_role: MakeRole, logged: LoggedDatabase) -> None:
    owner, role = prepare(make_role, logged)
    tracker = make_role("login")
    connect(logged.url).grant(tracker, Purpose.TRACKER, [NAMED])
    with connect(as_role(logged.url, tracker)) as database:
        database.tracking.enable_tracking(NAMED)
    grants = grants_of(logged, role, Purpose.READER)
    assert grants.keys() == of_row("tracking changes TABLE")
    url = as_role(logged.url, role)
    assert rowtide("tracking", "changes", NAMED, "--db", url).code == 1
    assert connect(logged.url).grant(role, Purpose.READER).statements == (f"grant {quote(tracker)} to {quote(role)}",)
    assert rowtide("tracking", "changes", NAMED, "--db", url).code == 0
    logged.execute(f"drop table {NAMED} cascade")
    clean(logged, role, tracker, owner)


def test_a_gateway(make_role: MakeRole, logged: LoggedDatabase, tmp_path: Path) -> None:
    """It registers a device, makes its file, and exchanges rows of a table that the publisher's role owns."""
    owner, role = make_role("login"), make_role("login")
    logged.execute('create schema "The shop"', f'grant all on schema "The shop" to {quote(owner)}')
    logged.execute(f"create table {NAMED} (id int primary key, v text)", f"alter table {NAMED} owner to {quote(owner)}")
    logged.execute(f"insert into {NAMED} values (1, 'a')", "create table other (id int primary key)")
    connect(logged.url).grant(owner, Purpose.MERGE, [NAMED])
    merge = connect(as_role(logged.url, owner)).merge
    merge.add_publication("shop")
    merge.add_article("shop", NAMED)
    merge.add_device("tablet", publication="shop")
    grants = grants_of(logged, role, Purpose.GATEWAY)
    assert grants.keys() == of_row("gateway serve")
    with serving_gateway({"hub": Hub("hub", as_role(logged.url, role))}, Address("127.0.0.1", 0), TlsOptions()) as at:
        number = count()

        def run() -> list[Ended]:
            file = tmp_path / f"{next(number)}.db"
            url = ("--url", f"http://{at}/hub", "--subscriber", f"sqlite:///{file}")
            code = merge.rotate_token("tablet")
            ended = [rowtide("merge", "sync", "shop", *url, "--code", code, "--replace")]
            if not ended[0].code:
                with closing(sqlite3.connect(file)) as program, program:
                    listed = program.execute(
                        "select name from sqlite_master where type = 'table' and name like '%Odd%'"
                    )
                    program.execute(f"update {quote(listed.fetchone()[0])} set v = v || 'b'")
                logged.execute(f"insert into {NAMED} values ((select max(id) + 1 from {NAMED}), 'hub')")
                ended.append(rowtide("merge", "sync", "shop", *url))
            return ended

        require_each(logged, role, grants, of_row("gateway serve"), run)
    assert ("ab",) in logged.execute(f"select v from {NAMED} where id = 1")
    assert connect(logged.url).grant(role, Purpose.GATEWAY).statements == ()
    assert logged.execute(f"select has_table_privilege('{role}', 'other', 'insert')") == [(False,)]
    logged.execute(f"drop table {NAMED} cascade")
    clean(logged, role, owner)
