"""What a server's node does where others are faster, or it is stopped in the middle."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import text

from builders.merge.merged_databases import PUBLICATION, Member, open_file_member, open_server_member
from builders.servers.monitored_databases import as_role
from fixtures.servers import fresh_database
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.databases.postgres.errors import RightMissing, RowsHidden
from rowtide.databases.postgres.quoting import quote
from rowtide.merge.api import MergeReplication
from rowtide.merge.articles import Article
from rowtide.merge.catalogue import list_merged
from rowtide.merge.errors.nodes import NodeBusy
from rowtide.merge.nodes.connecting import open_node
from rowtide.merge.nodes.node import Node
from rowtide.merge.versions.changes import TombstoneType, Write
from rowtide.merge.versions.comparison import Lineage, NodeChange, Presence

pytestmark = pytest.mark.live

OTHER = 9
CONTENTS = 'insert into rowtide_merge."MSmerge_stored_contents" (tablenick, rowguid, stamp) values (%s, %s, 1)'


@pytest.fixture
def hub(server: EmbeddedServer) -> Iterator[Member]:
    """A database with a published table of five thousand rows, all changed since."""
    with fresh_database(server) as url, open_server_member(url) as member:
        member.execute(
            "create table item (id integer primary key, name text)",
            "insert into item select n, 'item ' || n from generate_series(1, 5000) n",
        )
        merge = MergeReplication(url)
        merge.add_publication(PUBLICATION)
        merge.add_article(PUBLICATION, "item")
        member.execute("update item set name = name || '!'")
        yield member


class Stopped(Exception):
    """Something went wrong."""


def stop_enumerating(node: Node, article: Article) -> None:
    with node.changes.enumerating() as enumeration:
        assert len(next(enumeration.upserts(article, 0, OTHER))) < 5000
        raise Stopped


def lines(hub: Member) -> int:
    return int(hub.execute('select count(*) from rowtide_merge."MSmerge_log"')[0][0])


def test_only_lines_of_the_rows_asked_about_are_applied(hub: Member) -> None:
    with open_node(hub.url) as node:
        (article,) = list_merged(node.connection)
        node.apply_log()
        hub.execute("update item set name = 'new' where id <= 10")
        changed, other = (str(hub.rowguid("item", number)) for number in (10, 11))
        with node.transaction():
            assert set(node.versions.read_known(article, [other])) == {other}
        assert lines(hub) == 10
        with node.transaction():
            assert set(node.versions.read_known(article, [changed, other])) == {changed, other}

    assert lines(hub) == 0


def renaming(hub: Member, number: int) -> Write:
    change = NodeChange(OTHER, 1)
    rowguid, lineage = str(hub.rowguid("item", number)), Lineage((change,)).encode()
    return Write(
        rowguid=rowguid,
        row=(str(number), "theirs"),
        is_live=True,
        lineage=lineage,
        last=change.encode(),
        columns=None,
        origin=OTHER,
    )


def test_rows_are_committed_as_they_are_written(hub: Member) -> None:
    with open_node(hub.url) as node, node.transaction():
        (article,) = list_merged(node.connection)
        assert node.writer.write_each([(article, [renaming(hub, 1)])], commits=True) == [{}]
        assert hub.execute("select name from item where id = 1") == [("theirs",)]


def test_a_part_of_a_transaction_commits_nothing(hub: Member) -> None:
    with open_node(hub.url) as node, node.trying():
        (article,) = list_merged(node.connection)
        with node.transaction():
            node.writer.write_each([(article, [renaming(hub, 1)])], commits=True)

    assert hub.execute("select name from item where id = 1") == [("item 1!",)]


def test_a_row_known_by_its_line_alone_is_known(hub: Member) -> None:
    hub.execute('delete from rowtide_merge."MSmerge_stored_contents"', 'delete from rowtide_merge."MSmerge_log"')
    rowguid = str(hub.rowguid("item", 10))
    hub.execute("delete from item where id = 10")
    with open_node(hub.url) as node:
        (article,) = list_merged(node.connection)
        with node.transaction():
            found = node.versions.read_known(article, [rowguid])

    assert found[rowguid].version.presence is Presence.DELETED


def test_a_compared_table_is_read_in_parts(hub: Member) -> None:
    with open_node(hub.url) as node, node.transaction():
        (article,) = list_merged(node.connection)
        batches = node.rebuilt.rows(article)
        sizes = [len(next(batches))]
        open_cursors = node.connection.execute(text("select count(*) from pg_cursors")).scalar()
        sizes += [len(batch) for batch in batches]

    assert open_cursors == 1
    assert sizes == [2000, 2000, 1000]


def test_interrupted_enumeration_leaves_the_node_unchanged(hub: Member, caplog: pytest.LogCaptureFixture) -> None:
    with open_node(hub.url) as node:
        (article,) = list_merged(node.connection)
        with pytest.raises(Stopped):
            stop_enumerating(node, article)
        with node.changes.enumerating() as enumeration:
            assert sum(map(len, enumeration.upserts(article, 0, OTHER))) == 5000
    assert [record.message for record in caplog.records if record.levelno >= logging.WARNING] == []


def write_after(meanwhile: Callable[[], object], node: Node, article: Article, write: Write) -> None:
    with node.transaction():
        node.versions.read_known(article, [write.rowguid])
        meanwhile()
        node.writer.write(article, [write])


def test_metadata_written_concurrently_make_the_node_busy(hub: Member) -> None:
    """A row that was never changed here has none: two agents bring its first changes at the same time."""
    with open_node(hub.url) as node:
        (article,) = list_merged(node.connection)
        node.apply_log()
        hub.execute("update item set name = 'untouched' where id = 1", 'delete from rowtide_merge."MSmerge_log"')
        hub.execute('delete from rowtide_merge."MSmerge_stored_contents"')
        rowguid = hub.rowguid("item", 1)
        last = NodeChange(OTHER, 3)
        version = (Lineage((last,)).encode(), last.encode(), None, OTHER, frozenset[int](), TombstoneType.USER)
        write = Write(rowguid, ("1", "theirs"), True, *version)  # noqa: FBT003 - fields of a tuple
        with psycopg.connect(hub.url, autocommit=True) as other, pytest.raises(NodeBusy):
            write_after(lambda: other.execute(CONTENTS, [article.nickname, rowguid]), node, article, write)
        write_after(lambda: None, node, article, write)
    assert hub.execute("select name from item where id = 1") == [("theirs",)]


def test_rows_hidden_by_a_policy_are_not_left_out_but_refused(
    make_role: Callable[[str], str], database: str, tmp_path: Path
) -> None:
    role = make_role("login")
    with open_server_member(database) as hub, open_file_member(tmp_path / "device.db") as device:
        hub.execute(f'alter database {hub.program.info.dbname} owner to "{role}"', f'set role "{role}"')
        hub.execute("create schema shop", "create table shop.item (id integer primary key)")
        merge = MergeReplication(database.replace("//postgres@", f"//{role.replace(' ', '%20')}@"))
        merge.add_publication(PUBLICATION)
        merge.add_article(PUBLICATION, "shop.item")
        merge.add_subscription(PUBLICATION, device.url)
        hub.execute("insert into shop.item values (1), (2)", "create policy few on shop.item using (id < 2)")
        hub.execute("alter table shop.item enable row level security, force row level security")
        calls: list[Callable[[], object]] = [
            lambda: merge.sync(PUBLICATION, device.url),
            lambda: merge.validate(PUBLICATION, device.url),
            lambda: merge.make_snapshot(PUBLICATION, tmp_path / "snapshot"),
            lambda: merge.list_pending(PUBLICATION, device.url),
        ]
        for call in calls:
            with pytest.raises(RowsHidden, match="bypassrls"):
                call()
        hub.execute("alter table shop.item disable row level security")
        merge.sync(PUBLICATION, device.url)
        assert device.rows("item", "id") == [(1,), (2,)]


@pytest.mark.exhaustive
def test_rows_hidden_at_a_subscriber_are_no_deletes(
    make_role: Callable[[str], str], server: EmbeddedServer, database: str
) -> None:
    role = make_role("login")
    with fresh_database(server) as url, open_server_member(url) as hub, open_server_member(database) as branch:
        hub.execute("create table item (id integer primary key)", "insert into item values (1), (2)")
        branch.execute(f'alter database {branch.program.info.dbname} owner to "{role}"')
        branch.execute(f'grant create on schema public to "{role}"')
        subscriber = database.replace("//postgres@", f"//{role.replace(' ', '%20')}@")
        merge = MergeReplication(url)
        merge.add_publication(PUBLICATION)
        merge.add_article(PUBLICATION, "item")
        merge.add_subscription(PUBLICATION, subscriber)
        branch.execute("create policy few on item using (id < 2)")
        branch.execute("insert into item values (3)")
        branch.execute("alter table item enable row level security, force row level security")
        with pytest.raises(RowsHidden, match="bypassrls"):
            merge.sync(PUBLICATION, subscriber)
        branch.execute("alter table item disable row level security")
        merge.sync(PUBLICATION, subscriber)

        assert hub.rows("item", "id") == [(1,), (2,), (3,)]


def test_a_row_that_a_trigger_forbids_is_refused_alone(
    make_role: Callable[[str], str], database: str, tmp_path: Path
) -> None:
    role = make_role("login")
    with open_server_member(database) as hub, open_file_member(tmp_path / "device.db") as device:
        hub.execute(f'alter database {hub.program.info.dbname} owner to "{role}"', f'set role "{role}"')
        hub.execute("create schema shop", "create table shop.item (id integer primary key, note text)")
        hub.execute("insert into shop.item values (1, 'a')")
        merge = MergeReplication(database.replace("//postgres@", f"//{role.replace(' ', '%20')}@"))
        merge.add_publication(PUBLICATION)
        merge.add_article(PUBLICATION, "shop.item")
        merge.add_subscription(PUBLICATION, device.url)
        hub.execute(
            "create function shop.forbid() returns trigger language plpgsql as $$ begin "
            "if new.note = 'secret' then raise insufficient_privilege using message = 'not yours'; end if; "
            "return new; end $$",
            "create trigger forbid before insert or update on shop.item for each row execute function shop.forbid()",
        )
        device.execute("update item set note = 'b'", "insert into item (id, note) values (2, 'secret'), (3, 'c')")
        assert merge.sync(PUBLICATION, device.url).upload.total.refused == 1
        assert hub.rows("shop.item", "id, note") == [(1, "b"), (3, "c")]
        [conflict] = merge.list_conflicts(PUBLICATION)
        assert (conflict.reason_code, conflict.reason_text) == ("42501", "not yours")

        # A right that the role has not stops it, before anything is refused.
        device.execute("update item set note = 'd' where id = 2")
        hub.execute("reset role", f'revoke insert on shop.item from "{role}"')
        with pytest.raises(RightMissing, match="item"):
            merge.sync(PUBLICATION, device.url)
        hub.execute(f'grant insert on shop.item to "{role}"')
        assert merge.sync(PUBLICATION, device.url).upload.total.refused == 0
        assert hub.rows("shop.item", "id, note") == [(1, "b"), (2, "d"), (3, "c")]


def test_members_of_the_owner_share_devices(make_role: Callable[[str], str], database: str) -> None:
    owner, member, reader = (make_role("login") for _ in range(3))
    with open_server_member(database) as hub:
        hub.execute(
            f"grant create on database {quote(hub.execute('select current_database()')[0][0])} to {quote(owner)}",
            f"create schema app authorization {quote(owner)}",
            "create table app.item (id integer primary key)",
            f"alter table app.item owner to {quote(owner)}",
            f"grant {quote(owner)} to {quote(member)}",
            f"grant {quote(owner)} to {quote(reader)} with set false",
        )
        of_owner, *others = (MergeReplication(as_role(database, role)) for role in (owner, member, reader))
        of_owner.add_publication(PUBLICATION)
        of_owner.add_article(PUBLICATION, "app.item")
        for number, merge in enumerate(others):
            code = merge.add_device(f"tablet {number}", publication=PUBLICATION)
            assert len(of_owner.list_devices()) == 1, code
            of_owner.revoke_device(f"tablet {number}")
            assert [one.state for each in others for one in each.list_devices()] == ["revoked", "revoked"]
            hub.execute('drop table rowtide_merge."MSmerge_devices"')
        hub.execute(f"drop owned by {quote(owner)}, {quote(member)}, {quote(reader)} cascade")
