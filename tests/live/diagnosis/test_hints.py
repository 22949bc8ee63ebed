"""Statements and commands in hints of errors, run as they are printed by the role that they name: the error is gone.

They are those that anybody can run at once. `tests/unit/diagnosis/test_hints_are_run.py` says why others are not run.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import psycopg
import pytest
from sqlalchemy.engine import make_url

from builders.capture.captured_databases import CapturedDatabase
from builders.commands.hints import Place, Refused, put_words, require_help
from fixtures.servers import fresh_database
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.databases.postgres.quoting import quote

ENABLE = "cdc enable-db --lake LAKE"
TABLE = "cdc enable-table item"
NO_COPY = "cdc enable-table item --no-snapshot"
CAPTURE = (ENABLE, TABLE)
PUBLISH = ("replication add-publication shop --lake LAKE", "replication add-article shop item")
SUBSCRIBE = (*PUBLISH, "replication add-subscription shop --subscriber COPY")
RUN = "replication run --once"
VALIDATE = "replication validate shop --checksum"
TRACK = "tracking enable item"
CHANGES = "tracking changes item --format jsonl"
CONSUME = (*CAPTURE, "cdc add-consumer reader --instances public_item")
TARGET = (*CAPTURE, "cdc add-target house public_item --path LAKE-1")
SLOT = "from pg_replication_slots where database = current_database()"
TAKEN = ("alter table item owner to OWNER",)
RIGHTS = (
    "grant create on database DATABASE to ROLE",
    "grant usage, create on schema public to ROLE",
    "grant all on item to ROLE",
)
OWN = (*RIGHTS, "alter role ROLE replication", "alter table item owner to ROLE", f"by role {ENABLE}")
CHOSEN = {
    "PUBLICATION": "shop",
    "TABLE": "item",
    "URL": "COPY",
    "PATH": "LAKE",
    "NAME": "shop",
    "INSTANCES": "public_item",
    "INSTANCE": "public_item",
    "TARGET": "house",
    "CONSUMER": "reader",
    "NAME=VALUE": "retention=100",
}


@dataclass(frozen=True, slots=True)
class Source:
    """A database that is captured and published, with a lake and a copy; `role` has no rights at first."""

    captured: CapturedDatabase
    role: str
    owner: str
    other: str

    @property
    def url(self) -> str:
        return self.captured.url

    @property
    def words(self) -> Mapping[str, str]:
        return {
            "LAKE": str(self.captured.lake),
            "COPY": f"sqlite:///{self.captured.lake}-copy.db",
            "OTHER": self.other,
            "OTHER_DATABASE": quote(str(make_url(self.other).database)),
            "PLAIN": make_url(self.other).set(username=self.role).render_as_string(hide_password=False),
            "DATABASE": quote(str(make_url(self.url).database)),
            "ROLE": quote(self.role),
            "OWNER": quote(self.owner),
        }

    def execute(self, *statements: str) -> None:
        self.captured.execute(*statements)


def source_of(place: Place) -> CapturedDatabase:
    assert isinstance(place, Source)
    return place.captured


def capture(place: Place) -> None:
    source_of(place).capture()


def copy(place: Place) -> None:
    source_of(place).copy_tables()


def drop_slot(place: Place) -> None:
    source_of(place).drop_slot()


def drop_trigger(place: Place) -> None:
    ((name,),) = source_of(place).execute("select tgname from pg_trigger where tgrelid = 'item'::regclass limit 1")
    place.execute(f"drop trigger {quote(name)} on item")


def alter_publication(place: Place) -> None:
    ((name,),) = source_of(place).execute("select pubname from pg_publication_tables where tablename = 'item' limit 1")
    place.execute(f"alter publication {quote(name)} drop table item")


def close(place: Place) -> None:
    """Let nobody connect to the other database."""
    place.execute(put_words("alter database OTHER_DATABASE allow_connections false", place))


def half_build(place: Place) -> None:
    """Leave an index that could not be built."""
    with pytest.raises(psycopg.errors.UniqueViolation):
        place.execute("create unique index concurrently half on item (name)")


def take_away(place: Place, folder: str) -> None:
    shutil.rmtree(source_of(place).lake / folder)


REFUSED = [
    # What the server says.
    Refused(
        1042,
        TRACK,
        ("alter database DATABASE set default_transaction_read_only = on",),
        {"NAME": "DATABASE"},
    ),
    Refused(1105, ENABLE, RIGHTS, by_role=True),
    Refused(
        8150, "merge add-article field item", (*TAKEN, *RIGHTS, "by role merge add-publication field"), by_role=True
    ),
    # The log.
    Refused(2102, "cdc run --once", (*CAPTURE, copy, drop_slot)),
    Refused(2102, RUN, (*SUBSCRIBE, RUN, drop_slot), runs=(1,)),
    Refused(
        2105,
        "cdc run --once",
        (
            *CAPTURE,
            copy,
            "insert into item values (2, 'b')",
            f"select pg_replication_slot_advance(slot_name, pg_current_wal_insert_lsn()) {SLOT}",
        ),
    ),
    Refused(2106, "cdc run --once", (*CAPTURE, copy, alter_publication)),
    Refused(2211, "cdc run --once", (*CAPTURE, copy, partial(take_away, folder="log"))),
    # Capture.
    Refused(22901, "cdc status", chosen=CHOSEN),
    Refused(4109, "cdc table-rules", (ENABLE, "drop table cdc.targets"), CHOSEN),
    Refused(229, "cdc changes public_item", (*CAPTURE, capture), by_role=True),
    Refused(313, "cdc changes public_item --from 0/1 --to 0/2", (*CAPTURE, capture), runs=(0, 1), tells="/"),
    Refused(4107, "cdc changes public_item", CAPTURE, is_endless=True),
    Refused(4110, "cdc reinitialize --yes", (*CAPTURE, capture, *PUBLISH, drop_slot), CHOSEN, runs=(1,)),
    Refused(4131, "cdc acknowledge reader 0/1", CAPTURE, CHOSEN, runs=(0, 1)),
    Refused(4132, "cdc add-consumer reader --instances public_item", CONSUME, CHOSEN, tells=""),
    Refused(
        4151,
        "cdc follow public_other --consumer reader --idle-timeout 0",
        (*CONSUME, "cdc enable-table other", capture),
        {"INSTANCES": "public_other"},
    ),
    Refused(4136, "cdc acknowledge reader 7F/0", (*CONSUME, copy), tells="reader"),
    Refused(4144, "cdc drop-consumer target:house", TARGET, CHOSEN, runs=(1, 0)),
    Refused(4162, "cdc drop-table-rule nothing", (ENABLE,), tells=""),
    Refused(4171, "cdc add-job cleanup", CAPTURE, CHOSEN, tells=""),
    Refused(22997, "cdc change-job cleanup threshold=100", (ENABLE,)),
    Refused(4210, "cdc resnapshot item", CAPTURE, runs=(1,), then=(copy,)),
    Refused(4211, "cdc snapshots --cancel public_item", (ENABLE, NO_COPY), CHOSEN, runs=(1,)),
    Refused(4250, "cdc as-of public_item", (ENABLE, NO_COPY, capture), then=(copy,), after="cdc as-of public_item"),
    Refused(
        4253,
        "cdc as-of public_item",
        (*CAPTURE, copy, "alter table item alter name type text using name || name", capture),
        then=(copy,),
        after="cdc as-of public_item",
    ),
    Refused(4252, "cdc as-of public_item --at 0/1", (*CAPTURE, copy), runs=(0, 1), tells="/"),
    Refused(22918, "cdc generate-wrapper public_item --column-list x", (*CAPTURE, capture), tells="name"),
    Refused(22919, "cdc generate-wrapper public_item --update-flag-list x", (*CAPTURE, capture), tells="name"),
    Refused(22944, "cdc enable-table item --role 'OWNER'", (*OWN, "drop role OWNER"), by_role=True),
    Refused(22960, "cdc changes nothing", (*CAPTURE, capture), tells="public_item"),
    Refused(
        22962,
        "cdc enable-table item --capture-instance third",
        (*CAPTURE, "cdc enable-table item --capture-instance second"),
        CHOSEN,
    ),
    Refused(22964, "cdc cleanup public_item --low-water-mark 0/1", (*CAPTURE, copy), tells="/"),
    Refused(
        22980,
        "cdc enable-table item --index half",
        (
            ENABLE,
            "insert into item values (2, 'a')",
            "alter table item alter name set not null",
            half_build,
            "delete from item where id = 2",
        ),
    ),
    Refused(22022, "cdc start-job cleanup", CAPTURE, fact="no agent runs", is_endless=True),
    # Targets.
    Refused(9000, "cdc apply nothing --once", TARGET, tells="house"),
    Refused(
        9001,
        "cdc add-target house public_item --path LAKE-2",
        (*CAPTURE, "cdc add-target house public_item --path LAKE-1"),
    ),
    # Publications.
    Refused(14013, "replication status", chosen=CHOSEN),
    Refused(7151, "replication change-distribution --max-retention-hours 5", CAPTURE, CHOSEN),
    Refused(7153, "replication add-publication shop", chosen=CHOSEN),
    Refused(7111, "replication add-subscription shop --subscriber COPY", PUBLISH[:1], CHOSEN),
    Refused(20026, "replication articles nothing", PUBLISH, tells="shop"),
    Refused(14055, "replication drop-subscription shop --subscriber OTHER", SUBSCRIBE, tells="COPY"),
    Refused(14005, "replication drop-publication shop --yes", SUBSCRIBE, CHOSEN),
    Refused(7260, "replication run --once --subscriber COPY-2", SUBSCRIBE, tells="COPY"),
    Refused(
        7155,
        "replication restart-log --yes",
        (*CAPTURE, *SUBSCRIBE, copy, RUN, drop_slot),
        after=RUN,
    ),
    Refused(
        7117,
        RUN,
        (*SUBSCRIBE, RUN, drop_slot, "try replication run --once", "replication restart-log --yes"),
        CHOSEN,
    ),
    Refused(7164, RUN, (*SUBSCRIBE, RUN, "drop table item"), CHOSEN),
    Refused(
        7172,
        "replication drop-subscription shop --subscriber OTHER",
        (*PUBLISH, "replication add-subscription shop --subscriber OTHER", close),
        runs=(1,),
    ),
    Refused(20574, VALIDATE, (*SUBSCRIBE, RUN, "COPY: delete from item"), tells="1"),
    Refused(7237, f"{VALIDATE} --differences", (*SUBSCRIBE, RUN, "COPY: update item set name = 'x'"), after=VALIDATE),
    Refused(
        20598,
        RUN,
        (*SUBSCRIBE, RUN, "COPY: delete from item", "update item set name = 'b'"),
        CHOSEN,
        after=RUN,
    ),
    Refused(
        7286,
        RUN,
        (
            *SUBSCRIBE,
            RUN,
            "alter table item alter name set not null",
            "create unique index named on item (name)",
            "alter table item replica identity using index named",
            "update item set id = 2",
        ),
        CHOSEN,
        runs=(0, 1),
        after=RUN,
    ),
    Refused(
        7190,
        "replication add-subscription shop --subscriber PLAIN --if-exists delete",
        (
            *PUBLISH,
            "OTHER: create table item (id int primary key, name text)",
            "OTHER: alter table item owner to OWNER",
            "OTHER: grant all on schema public to ROLE",
            "OTHER: grant create on database OTHER_DATABASE to ROLE",
            "OTHER: grant all on item to ROLE",
        ),
    ),
    Refused(7264, "replication add-publication more --distribution-db OTHER", PUBLISH, after="replication status"),
    Refused(
        7132,
        "replication add-subscription shop --subscriber COPY",
        ("COPY: create table item (id int primary key, name text)", *PUBLISH),
        CHOSEN,
    ),
    # Tracking.
    Refused(6106, CHANGES, (TRACK, drop_trigger)),
    Refused(22105, CHANGES, ("tracking enable other",)),
    Refused(6104, f"{TRACK} --storage side", (TRACK,)),
    Refused(6111, "tracking purge tombstones --days 1", chosen=CHOSEN),
]


@pytest.fixture
def source(make_role: Callable[[str], str], server: EmbeddedServer, copied: CapturedDatabase) -> Iterator[Source]:
    with fresh_database(server) as other:
        yield Source(copied, make_role("login"), make_role(""), other)


@pytest.mark.parametrize("refused", REFUSED, ids=str)
def test_an_error_is_gone_once_its_hint_is_done(source: Source, refused: Refused) -> None:
    source.execute(
        "create table item (id int primary key, name text)",
        "create table other (id int primary key)",
        "insert into item values (1, 'a')",
    )
    asking = make_url(source.url).set(username=source.role).render_as_string(hide_password=False)
    require_help(refused, source, asking if refused.by_role else source.url)
