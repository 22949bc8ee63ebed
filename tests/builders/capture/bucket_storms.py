"""Capture into a bucket in bad weather: requests fail, the network is cut, and what runs is killed."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from builders.capture.capture_processes import CAPTURE, LOG_READER, CaptureProcess
from builders.capture.captured_databases import FINDS_EVERYTHING, LoggedDatabase
from builders.faults.faulty_proxy import FaultyProxy
from builders.workloads import COLUMNS, ChangeRow, History, read_history
from rowtide.cdc.published import system_table_path
from rowtide.core.lsn import CommitLsn
from rowtide.delta.snapshot import open_snapshot
from rowtide.handle import open_lake
from rowtide.lake.stores import locate

_LONGEST_CALM_S = 2.0
_CUT_S = 3.0


@dataclass
class BucketStorm:
    """A database under load whose lake and log store are in a bucket, and the process that captures it.

    The process reaches the bucket through the proxy, readers without. `engine` is an argument of `--engine`.
    """

    logged: LoggedDatabase
    lake: str
    proxy: FaultyProxy
    directory: Path
    seed: int
    engine: str = "auto"
    cut_s: float = _CUT_S
    process: CaptureProcess = field(init=False)
    happened: list[str] = field(default_factory=list)
    seen: list[tuple[CommitLsn, frozenset[int]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._chosen = random.Random(self.seed)
        self._deck: list[str] = []
        self.restart()

    @contextmanager
    def told(self) -> Iterator[None]:
        """Let a failure say how to have the same weather again."""
        try:
            yield
        except BaseException as error:
            error.add_note("\n".join([f"seed {self.seed}", *self.happened, self.process.messages()]))
            raise
        finally:
            self.process.__exit__(None, None, None)

    def restart(self) -> None:
        """Start the process that captures, with the proxy between it and the bucket."""
        environment = {"AWS_ENDPOINT_URL": self.proxy.endpoint}
        self.process = CaptureProcess(self.logged.url, self.directory, (*CAPTURE, "--engine", self.engine), environment)

    def strike(self) -> None:
        """Let the next disturbance happen: all in a random order, then all again."""
        disturbances: Mapping[str, Callable[[], None]] = {
            "kill capture": self._kill_capture,
            "kill the log reader": self._kill_log_reader,
            "stop capture a while": self._stop_a_while,
            "cut the network": self.cut_network,
        }
        if not self._deck:
            self._deck = sorted(disturbances)
            self._chosen.shuffle(self._deck)
        name = self._deck.pop()
        self.happened.append(name)
        disturbances[name]()
        if self.process.process.poll() is not None:
            # Its patience with the bucket has an end; an agent would start it again.
            self.happened.append(f"started again after: {self.process.messages().splitlines()[-1:]}")
            self.restart()
        time.sleep(self._chosen.uniform(0, _LONGEST_CALM_S))

    def read(self) -> History:
        """Read what a user sees now; each transaction in it must be whole."""
        lsn = open_lake(self.lake).get_max_lsn()
        assert lsn is not None
        history = read_bucket(self.lake, lsn)
        written = read_history(self.logged.session)
        for xid, rows in history.items():
            assert rows == written[xid], f"transaction {xid} up to {lsn}"
        assert not self.seen or self.seen[-1][0] <= lsn
        self.seen.append((lsn, frozenset(history)))
        return history

    def _kill_capture(self) -> None:
        self.process.process.kill()
        self.process.process.wait()
        self.restart()

    def _kill_log_reader(self) -> None:
        os.kill(self.process.wait_child(LOG_READER), signal.SIGKILL)

    def _stop_a_while(self) -> None:
        os.kill(self.process.process.pid, signal.SIGSTOP)
        time.sleep(_CUT_S)
        os.kill(self.process.process.pid, signal.SIGCONT)

    def cut_network(self) -> None:
        """Refuse all requests of the process for `cut_s` seconds."""
        with self.proxy.cut():
            time.sleep(self.cut_s)


def read_bucket(lake: str, to_lsn: CommitLsn) -> History:
    """Return the change rows of a lake's tables up to an LSN, by transaction, read without Spark."""
    mapping = open_snapshot(locate(system_table_path(lake, "lsn_time_mapping")))
    assert mapping is not None
    xids = {row["start_lsn"]: row["tran_id"] for row in mapping.read(["start_lsn", "tran_id"]).to_pylist()}
    history: dict[int, list[ChangeRow]] = defaultdict(list)
    for instance, columns in COLUMNS.items():
        found = open_lake(lake).get_all_changes(instance, None, to_lsn, FINDS_EVERYTHING).to_arrow().read_all()
        names = ("__$start_lsn", "__$seqval", "__$operation", *columns)
        by_column: Sequence[list[Any]] = [found[name].to_pylist() for name in names]
        for lsn, seqval, operation, *values in zip(*by_column, strict=True):
            history[xids[lsn]].append((seqval, operation, instance, tuple(values)))
    return {xid: sorted(rows) for xid, rows in history.items()}
