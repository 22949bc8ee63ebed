"""The monitor's file: private, bounded, of one monitor, and begun again only where it is damaged."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from rowtide.core.errors import FileNotWritable
from rowtide.diagnosis import State
from rowtide.monitor import ring as rings
from rowtide.monitor.counters import DatabaseCounters, Total
from rowtide.monitor.errors import MonitorRuns, SamplesForeign, SamplesNewer, StateFolderUnknown
from rowtide.monitor.gauge_series import GaugeSeries
from rowtide.monitor.ring import Ring, state_folder
from rowtide.monitor.views import StateChange

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
ROWS = ("rows_total", ())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "state" / "rowtide"


@pytest.fixture
def ring(folder: Path) -> Iterator[Ring]:
    with Ring.open(folder) as opened:
        yield opened


def tallied(value: float) -> DatabaseCounters:
    counted = DatabaseCounters()
    counted.take([Total(*ROWS, value)], timeline=1)
    return counted


def test_file_and_folder_are_the_users_alone(ring: Ring, folder: Path) -> None:
    ring.save("shop", "1", tallied(1), NOW, {})
    modes = {path.name: path.stat().st_mode & 0o777 for path in (folder, *folder.iterdir())}
    assert modes.pop("rowtide") == 0o700
    assert set(modes.values()) == {0o600}
    assert "monitor.db" in modes


def test_counters_are_those_of_the_server(ring: Ring) -> None:
    ring.save("shop", "1", tallied(5), NOW, {})
    ring.save("shop", "2", tallied(1), NOW, {})
    found = [ring.load_counters(database, system) for database, system in (("shop", "1"), ("shop", "2"), ("x", "1"))]
    assert [one.counters for one in found] == [{ROWS: 5}, {ROWS: 1}, {}]


def test_what_a_file_has_survives_its_monitor(folder: Path) -> None:
    with Ring.open(folder) as ring:
        ring.save("shop", "1", tallied(5), NOW, {"lag": 2.5})
    with Ring.open(folder) as ring:
        assert ring.load_counters("shop", "1") == tallied(5)
        (sample,) = ring.list_samples("shop", NOW - timedelta(hours=1))
    assert (sample.at, sample.values) == (NOW, {"lag": 2.5})


def test_a_day_of_samples_is_kept_and_thinned(ring: Ring) -> None:
    begin = NOW - timedelta(hours=26)
    for minute in (*range(0, 25 * 60, 20), *range(25 * 60, 26 * 60)):
        for second in (0, 15, 30, 45):
            ring.save(
                "shop", "1", DatabaseCounters(), begin + timedelta(minutes=minute, seconds=second), {"lag": minute}
            )
    last = NOW - timedelta(seconds=15)
    kept = ring.list_samples("shop", begin)
    assert kept[0].at >= last - timedelta(hours=24)
    of_last_hour = [one for one in kept if one.at >= last - timedelta(hours=1)]
    assert len(of_last_hour) == 60 * 4
    assert len(kept) == pytest.approx(23 * 3 + len(of_last_hour), abs=2)


def test_a_full_file_forgets_the_oldest_samples(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rings, "MOST_BYTES", 40 * 4096)
    with Ring.open(folder) as ring:
        for number in range(60):
            values = {f"{number} {name}": hash((number, name)) / 7 for name in range(300)}
            ring.save("shop", "1", tallied(number), NOW + timedelta(seconds=number), values)
        kept = ring.list_samples("shop", NOW)
        assert 0 < len(kept) < 60
        assert kept[-1].at >= NOW + timedelta(seconds=58)
    assert (folder / "monitor.db").stat().st_size <= 40 * 4096


def changed(at: datetime, subject: str = "capture", after: State | None = State.FAILING) -> StateChange:
    return StateChange(at, "shop", "capture", subject, State.HEALTHY, after, "it's <stopped>")


def test_changes_of_the_last_hour_survive_their_monitor(folder: Path) -> None:
    minutes = [NOW + timedelta(minutes=minute) for minute in (0, 30, 61)]
    found = [changed(minutes[0]), changed(minutes[1], "\u202ename", None), changed(minutes[2]), changed(minutes[2])]
    with Ring.open(folder) as ring:
        ring.add_changes("shop", found[:2])
        ring.add_changes("other", found[:1])
        ring.add_changes("shop", [])
        ring.add_changes("shop", found[2:])
    with Ring.open(folder) as ring:
        assert ring.list_changes("shop", NOW - timedelta(days=1)) == found[1:]
        assert ring.list_changes("shop", minutes[2]) == found[2:]


def test_a_file_without_changes_gets_them(folder: Path) -> None:
    with Ring.open(folder) as ring:
        ring.save("shop", "1", tallied(5), NOW, {})
    with closing(sqlite3.connect(folder / "monitor.db")) as earlier:
        earlier.execute("drop table changes")
    with Ring.open(folder) as ring:
        assert ring.load_counters("shop", "1") == tallied(5)
        ring.add_changes("shop", [changed(NOW)])
        assert ring.list_changes("shop", NOW) == [changed(NOW)]


def test_a_second_monitor_is_refused(ring: Ring, folder: Path) -> None:
    with pytest.raises(MonitorRuns, match="another monitor, process [0-9]+, has"):
        Ring.open(folder)
    ring.save("shop", "1", tallied(1), NOW, {})


@pytest.mark.parametrize("damage", [b"no database at all, but text" * 200, None])
def test_a_damaged_file_is_moved_aside(folder: Path, damage: bytes | None, caplog: pytest.LogCaptureFixture) -> None:
    with Ring.open(folder) as ring:
        for number in range(50):
            values = {str(n): n * 0.37 + number for n in range(200)}
            ring.save("shop", "1", tallied(5), NOW + timedelta(seconds=number), values)
    path = folder / "monitor.db"
    found = path.read_bytes()
    path.write_bytes(damage if damage is not None else found[: len(found) // 2])
    with Ring.open(folder) as ring:
        assert ring.load_counters("shop", "1") == DatabaseCounters()
        ring.save("shop", "1", tallied(1), NOW, {})
    assert "samples_replaced" in caplog.text
    assert (folder / "monitor.db.damaged").exists()


def test_a_newer_file_is_refused_and_left(folder: Path) -> None:
    Ring.open(folder).close()
    with closing(sqlite3.connect(folder / "monitor.db")) as other:
        other.execute("pragma user_version = 99")
    with pytest.raises(SamplesNewer, match="format 99"):
        Ring.open(folder)
    # The lock is not kept.
    with pytest.raises(SamplesNewer):
        Ring.open(folder)


def test_a_file_of_another_program_is_refused_and_left(folder: Path) -> None:
    folder.mkdir(parents=True)
    with closing(sqlite3.connect(folder / "monitor.db")) as other:
        other.execute("create table samples (x)")
    with pytest.raises(SamplesForeign):
        Ring.open(folder)


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FileNotWritable):
        Ring.open(tmp_path / "file" / "state")


def test_a_user_without_a_home_has_to_name_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr("os.getuid", lambda: 54_321)

    with pytest.raises(StateFolderUnknown, match="RT-1222"):
        state_folder({})
    assert state_folder({"STATE_DIRECTORY": "/data"}) == Path("/data")


def test_the_folder_is_systemds_else_the_users() -> None:
    assert state_folder({"STATE_DIRECTORY": "/var/lib/a:/var/lib/b", "XDG_STATE_HOME": "/x"}) == Path("/var/lib/a")
    assert state_folder({"XDG_STATE_HOME": "/x"}) == Path("/x/rowtide")
    assert state_folder({"XDG_STATE_HOME": "relative"}).parts[-3:] == (".local", "state", "rowtide")


def test_points_of_a_day_are_thinned_evenly(ring: Ring) -> None:
    lag, size = GaugeSeries("rowtide_target_lag_seconds", ("lake", "item")), GaugeSeries("rowtide_log_store_bytes")
    begin = datetime.now(UTC) - timedelta(minutes=50)
    for second in range(0, 3000, 15):
        values = {lag.key: float(second), **({size.key: 7.0} if second >= 1500 else {})}
        ring.save("shop", "1", DatabaseCounters(), begin + timedelta(seconds=second), values)
    ring.save("other", "1", DatabaseCounters(), begin, {lag.key: -1.0})
    found = ring.list_points("shop", [lag, size], begin, most=10)
    assert 10 <= len(found[lag]) <= 11
    lags = [point.value or 0.0 for point in found[lag]]
    assert lags == sorted(lags)
    assert lags[-1] == 2985
    assert [point.value for point in found[size]][::9] == [None, 7.0]
    assert len(ring.list_points("shop", [lag], begin, most=1000)[lag]) == 200
