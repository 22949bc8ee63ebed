"""Options of the agent, and procedures that let rows travel again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta

import pytest

from builders.merge.merged_databases import PUBLICATION, FileMember, Member, Merge
from fixtures.merged import PARAMETERS, open_members
from rowtide.merge.api import MergeReplication
from rowtide.merge.articles import ExchangeType
from rowtide.merge.errors.rows import NeverValidated
from rowtide.merge.errors.subscribing import SubscriptionExpired, UploadNotComparable

ITEM = "create table item (id integer primary key, name varchar(20))"
ROWS = "insert into item values (1, 'a'), (2, 'b'), (3, 'c')"
COLUMNS = "id, name"


@pytest.fixture(params=PARAMETERS)
def merged(request: pytest.FixtureRequest) -> Iterator[Merge]:
    """A hub and two subscribers with a table of three rows; conflicts are kept for a day."""
    with ExitStack() as opened:
        members = open_members(request, opened, request.param)
        merged = Merge(members[0], members[1:])
        merged.hub.execute(ITEM, ROWS)
        merged.merge.add_publication(PUBLICATION, conflict_retention_days=1)
        merged.merge.add_article(PUBLICATION, "item")
        for subscriber in merged.subscribers:
            merged.merge.add_subscription(PUBLICATION, subscriber.url)
        yield merged


def sync(merged: Merge, exchange: ExchangeType) -> tuple[int, int]:
    summary = merged.merge.sync(PUBLICATION, merged.subscribers[0].url, exchange=exchange)
    return summary.upload.total.moved, summary.download.total.moved


def set_dates(merged: Merge, **dates: datetime) -> None:
    """Set columns of the first subscriber's subscription, at the hub."""
    prefix = "" if isinstance(merged.hub, FileMember) else "rowtide_merge."
    subid = _subscription(merged)["subid"]
    for name, date in dates.items():
        text = f"{date:%Y-%m-%d %H:%M:%S}"
        merged.hub.execute_as_agent(
            f"update {prefix}sysmerge_stored_subscriptions set {name} = '{text}' where subid = '{subid}'"
        )


def _subscription(merged: Merge) -> dict[str, object]:
    listed = merged.merge.read_table("sysmergesubscriptions").rows
    address = merged.subscribers[0].url
    return next(dict(row) for row in listed if str(row["subscriber_server"]).startswith(address[:20]) and row["subid"])


def test_one_direction_at_a_time(merged: Merge) -> None:
    hub, device = merged.hub, merged.subscribers[0]
    hub.execute("update item set name = 'hub' where id = 1")
    device.execute("update item set name = 'own' where id = 2")
    assert sync(merged, ExchangeType.UPLOAD) == (1, 0)
    assert (hub.rows("item", COLUMNS)[1], device.rows("item", COLUMNS)[0]) == ((2, "own"), (1, "a"))
    device.execute("update item set name = 'later' where id = 3")
    assert sync(merged, ExchangeType.DOWNLOAD) == (0, 1)
    assert (device.rows("item", COLUMNS)[0], hub.rows("item", COLUMNS)[2]) == ((1, "hub"), (3, "c"))
    # Both changed a row: it waits for the upload, at which the hub decides.
    hub.execute("update item set name = 'won' where id = 3")
    assert sync(merged, ExchangeType.DOWNLOAD) == (0, 0)
    sync(merged, ExchangeType.UPLOAD)
    sync(merged, ExchangeType.DOWNLOAD)
    merged.settle()
    merged.require_equal("item", columns=COLUMNS)
    assert hub.rows("item", COLUMNS) == [(1, "hub"), (2, "own"), (3, "won")]
    assert all(summary.is_quiet for summary in merged.settle())


@pytest.mark.direct(reason="the dates that it sets are those of a session by requests that is not acknowledged yet")
def test_the_retention_asks_for_both_directions(merged: Merge) -> None:
    merged.subscribers = merged.subscribers[:1]
    merged.sync()
    long_ago = datetime.now(UTC) - timedelta(days=30)
    set_dates(merged, last_sync_date=datetime.now(UTC), last_upload_date=long_ago, last_download_date=long_ago)
    assert sync(merged, ExchangeType.DOWNLOAD) == (0, 0)
    with pytest.raises(SubscriptionExpired):
        sync(merged, ExchangeType.DOWNLOAD)


@pytest.mark.direct(reason="the dates that it sets are those of a session by requests that is not acknowledged yet")
def test_a_purge_while_it_had_expired_is_not_forgotten(merged: Merge) -> None:
    """The clock was ahead at the purge, or the retention was made longer since."""
    hub, (device, other) = merged.hub, merged.subscribers
    merged.settle()
    long_ago, now = datetime.now(UTC) - timedelta(days=30), datetime.now(UTC)
    set_dates(merged, last_sync_date=long_ago, last_upload_date=long_ago, last_download_date=long_ago)
    hub.execute("delete from item where id = 1")
    for name in "xyz":
        hub.execute(f"update item set name = '{name}' where id = 2")
        merged.merge.sync(PUBLICATION, other.url)
    assert merged.merge.cleanup() > 0
    set_dates(merged, last_sync_date=now, last_upload_date=now, last_download_date=now)
    with pytest.raises(UploadNotComparable, match="it had expired"):
        sync(merged, ExchangeType.BOTH)
    merged.merge.reinitialize(PUBLICATION, device.url)
    merged.settle()
    merged.require_equal("item", columns=COLUMNS)
    assert hub.rows("item", COLUMNS) == [(2, "z"), (3, "c")]


def test_rows_are_repeated_without_a_snapshot(merged: Merge) -> None:
    hub, device = merged.hub, merged.subscribers[0]
    hub.execute("update item set name = 'A' where id = 1", "update item set name = 'B' where id = 2")
    merged.settle()
    with pytest.raises(NeverValidated):
        merged.merge.resync(PUBLICATION, device.url, since_validation=True)
    assert all(row.is_equal for row in merged.merge.validate(PUBLICATION, device.url, checksum=True))
    assert _subscription(merged)["last_validated"] is not None
    _damage(device)
    assert not all(row.is_equal for row in merged.merge.validate(PUBLICATION, device.url, checksum=True))
    # No change says that anything is missing, and since the validation nothing was changed.
    assert merged.sync().is_quiet
    assert merged.merge.resync(PUBLICATION, device.url, since=datetime.now(UTC)).is_quiet
    summary = merged.merge.resync(PUBLICATION, device.url)
    assert summary.download.total.moved == 2
    merged.require_equal("item", columns=COLUMNS)
    assert all(each.is_quiet for each in merged.settle())


def _damage(device: Member) -> None:
    """Lose a row and change another, with nothing that tracks it."""
    tracking = MergeReplication(device.url).read_table("sysmergearticles").rows[0]["nickname"]
    if isinstance(device, FileMember):
        for kind in ("upd", "del"):
            (text,) = device.execute(f"select sql from sqlite_schema where name = 'MSmerge_{kind}_{tracking}'")[0]
            device.execute(f'drop trigger "MSmerge_{kind}_{tracking}"')
            changed = "delete from item where id = 1" if kind == "del" else "update item set name = 'x' where id = 2"
            device.execute(changed, text)
        return
    device.execute(
        "set rowtide.merge_agent = 'on'",
        "delete from item where id = 1",
        "update item set name = 'x' where id = 2",
        "reset rowtide.merge_agent",
    )


def test_a_dummy_update_lets_a_row_travel_again(merged: Merge) -> None:
    merged.settle()
    rowguid = merged.hub.rowguid("item", 2)
    assert merged.merge.dummy_update("item", rowguid)
    assert not merged.merge.dummy_update("item", "01977d20-5a4e-7cc0-8000-cfe0f9b6d111")
    (change,) = merged.merge.enum_changes(PUBLICATION, merged.subscribers[0].url)
    assert (change.rowguid, change.change) == (rowguid, "upsert")
    assert merged.sync().download.total.updates == 1
    assert merged.conflicts() == []


def test_conflicts_are_kept_for_their_retention(merged: Merge) -> None:
    device = merged.subscribers[0]
    merged.hub.execute("update item set name = 'hub' where id = 1")
    device.execute("update item set name = 'own' where id = 1")
    merged.sync()
    merged.merge.cleanup()
    assert len(merged.conflicts()) == 1
    prefix = "" if isinstance(merged.hub, FileMember) else "rowtide_merge."
    moment = f"{datetime.now(UTC) - timedelta(days=2):%Y-%m-%d %H:%M:%S}"
    merged.hub.execute_as_agent(f"""update {prefix}"MSmerge_conflicts_info" set "MSrepl_create_time" = '{moment}'""")
    merged.merge.cleanup()
    assert merged.conflicts() == []
