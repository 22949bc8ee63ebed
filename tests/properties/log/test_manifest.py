"""Whatever is written in whatever order: entries, checkpoints and followers tell the same story."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from itertools import count
from pathlib import Path

from hypothesis import given, settings, strategies as st

from builders.faults.watched_stores import AgingStore, SleepingStore
from builders.log.log_stores import NOW, START, member, open_manifest, opened, range_to, segment, table_version
from rowtide.core.json_records import load_json
from rowtide.core.lsn import CommitLsn, Position
from rowtide.log.membership import Disabled, Enabled, Event, Reshaped
from rowtide.log.store.entries import (
    Entry,
    FilesDeleted,
    LeaseTaken,
    PartStored,
    ReaderAdvanced,
    SegmentsMerged,
    SegmentsTruncated,
    TableGiven,
    TimelineFollowed,
    TransactionSkipped,
    decode_entry,
    encode_entry,
)
from rowtide.log.store.location import LocalStore
from rowtide.log.store.manifest import Manifest
from rowtide.log.store.replay import apply
from rowtide.log.store.state import ManifestState, decode_state, encode_state


@dataclass(frozen=True)
class Move:
    """An intention; which entry it is depends on the state it meets."""

    kind: str
    choice: int


KINDS = (
    "range",
    "keepalive",
    "part",
    "lease",
    "table",
    "advance",
    "advance",
    "timeline",
    "skip",
    "truncate",
    "merge",
    "forget",
    "epoch",
)
MOVES = st.lists(st.builds(Move, st.sampled_from(KINDS), st.integers(0, 3)), max_size=30)
BEGINNING: tuple[Entry, ...] = (opened(), LeaseTaken("log", "us", NOW), TableGiven(2, table_version(1)))


def entry_for(state: ManifestState, move: Move) -> Entry:
    token, here = state.leases["log"].token, state.position.log
    match move.kind:
        case "range":
            return append(state, move.choice)
        case "part":
            number = min(move.choice, len(state.parts))
            lsn = state.parts[0].first.value if number else state.position.value + move.choice
            return PartStored(token, number, segment(lsn, path=f"pending/{state.version}"))
        case "lease":
            return LeaseTaken("log" if move.choice else "lake", f"holder {move.choice}", NOW)
        case "table":
            return TableGiven(token, table_version(state.next_table_id))
        case "advance":
            span = state.position.value - state.low.value
            return ReaderAdvanced(
                f"r{move.choice % 2}", Position(state.low.value + span * move.choice // 3), move.choice
            )
        case "timeline":
            return TimelineFollowed(token, state.source.timeline + move.choice)
        case "skip":
            return TransactionSkipped(token, CommitLsn(state.position.value + move.choice), "too large")
        case "truncate":
            return SegmentsTruncated(token, state.position, NOW)
        case "merge" if len(state.segments) >= 2:
            return merge(state, move.choice)
        case "forget":
            return FilesDeleted(token, tuple(pending.path for pending in state.pending_deletions[: move.choice]))
        case "epoch":
            return opened(state.epoch + 1, 10 * move.choice, "restored")
        case _:
            return range_to(state, here + move.choice)


def append(state: ManifestState, count: int) -> Entry:
    here = state.position.value
    lsns = [here + 2 * index for index in range(count)]
    events: list[Event] = [
        Enabled(CommitLsn(here), member(f"m{count}")),
        Disabled(CommitLsn(here), f"m{count - 1}"),
        Reshaped(CommitLsn(here), 1),
    ]
    return range_to(state, state.position.log + 2 * count + 1, [segment(lsn) for lsn in lsns], events[:count])


def merge(state: ManifestState, choice: int) -> Entry:
    first, last = state.segments[choice % (len(state.segments) - 1) :][:2]
    path = f"segments/merged-{state.version}"
    merged = segment(first.first.value, last.last.value, path=path, rows=first.rows + last.rows)
    return SegmentsMerged(state.leases["log"].token, (first.path, last.path), merged, NOW)


def history(moves: list[Move]) -> tuple[list[Entry], list[ManifestState]]:
    """Return the entries of the moves, and the state after each."""
    entries: list[Entry] = []
    states: list[ManifestState] = []
    for step in [*BEGINNING, *moves]:
        entry = entry_for(states[-1], step) if isinstance(step, Move) else step
        states.append(apply(states[-1] if states else None, len(states) + 1, entry))
        entries.append(entry)
    return entries, states


@given(MOVES, st.data())
def test_checkpoint_at_any_entry_replaces_the_entries_before_it(moves: list[Move], data: st.DataObject) -> None:
    entries, states = history(moves)
    cut = data.draw(st.integers(1, len(entries)))
    state = decode_state(load_json(encode_state(states[cut - 1])))
    for number, entry in enumerate(entries[cut:], cut + 1):
        state = apply(state, number, decode_entry(load_json(encode_entry(entry))))

    assert state == states[-1]


@given(MOVES)
def test_file_is_named_until_deleted_and_kept_while_needed(moves: list[Move]) -> None:
    entries, states = history(moves)
    before = states[0]
    for entry, after in zip(entries[1:], states[1:], strict=True):
        gone = set(named(before)) - set(named(after))
        assert gone == set(entry.paths if isinstance(entry, FilesDeleted) else ())
        assert len(named(after)) == len(set(named(after)))
        assert rows(after) >= rows(before) or isinstance(entry, SegmentsTruncated)
        slowest = before.slowest_reader()
        if isinstance(entry, SegmentsTruncated) and slowest is not None:
            assert {found.path for found in before.segments if not slowest.covers(found.last)} <= {
                found.path for found in after.segments
            }
        before = after


def named(state: ManifestState) -> list[str]:
    return [found.path for found in state.segments] + [pending.path for pending in state.pending_deletions]


def rows(state: ManifestState) -> int:
    return sum(found.rows for found in state.segments)


@settings(max_examples=25, deadline=None)
@given(MOVES, st.sets(st.integers(0, 40)), st.integers(2, 5))
def test_followers_near_and_far_see_what_the_writer_sees(
    moves: list[Move], looks: set[int], entries_per_checkpoint: int
) -> None:
    with tempfile.TemporaryDirectory() as root:
        store = LocalStore(root)
        writer = Manifest(store, entries_per_checkpoint=entries_per_checkpoint)
        follower = Manifest(store)
        _, states = history(moves)
        state: ManifestState | None = None
        for step in [*BEGINNING, *moves]:
            entry = entry_for(writer.state, step) if isinstance(step, Move) else step
            state = writer.append(entry)
            if state.version in looks:
                assert follower.refresh() == state
        assert state == states[-1]
        assert follower.refresh() == state
        assert Manifest.open(store).state == state


@dataclass(frozen=True)
class Turn:
    """What a process does: look or append, the latter with a sleep in which others append, and time that passes."""

    process: int
    appends: bool
    sleeps: str
    others: int
    minutes: float


TURNS = st.lists(
    st.builds(
        Turn,
        process=st.integers(0, 2),
        appends=st.booleans(),
        sleeps=st.sampled_from(("never", "before", "behind")),
        others=st.integers(0, 12),
        minutes=st.sampled_from((0, 0.5, 1.5, 20, 40, 61, 200)),
    ),
    max_size=25,
)


@settings(max_examples=40, deadline=None)
@given(TURNS, st.integers(1, 4))
def test_no_entry_is_lost_however_long_its_writer_sleeps(turns: list[Turn], entries_per_checkpoint: int) -> None:
    with tempfile.TemporaryDirectory() as root:
        aging = AgingStore(Path(root))
        open_manifest(aging)
        names = (f"r{number}" for number in count())
        written: list[str] = []

        def append(manifest: Manifest) -> None:
            name = next(names)
            manifest.append(ReaderAdvanced(name, START))
            written.append(name)

        other = Manifest(aging, entries_per_checkpoint=entries_per_checkpoint, clock=aging.clock)

        def sleep(turn: Turn) -> None:
            for _ in range(turn.others):
                aging.pass_time(timedelta(minutes=turn.minutes) / turn.others)
                append(other)

        processes = [
            Manifest(aging, entries_per_checkpoint=entries_per_checkpoint, clock=aging.clock) for _ in range(3)
        ]
        for turn in turns:
            manifest = processes[turn.process]
            if not turn.appends:
                sleep(turn)
                manifest.refresh()
                continue
            store = SleepingStore(aging, partial(sleep, turn), behind=turn.sleeps == "behind")
            store.is_to_sleep = turn.sleeps != "never"
            manifest.store = store
            append(manifest)
        states = [manifest.refresh() for manifest in processes]
        assert all(state == Manifest.open(aging).state for state in states)
        assert set(states[0].readers) == set(written)
