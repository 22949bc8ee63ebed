"""Capture in bad weather: what runs is killed, stopped, cut off and reconfigured, in an order that a seed repeats."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import psycopg

from builders.capture.capture_processes import JVM, LOG_READER, CaptureProcess
from builders.capture.captured_databases import CapturedDatabase, wait_until
from builders.lakes.change_histories import read_instance, read_transactions
from builders.workloads import History, read_histories
from rowtide.cdc.errors.querying import InstanceUnknown, LsnOutOfRange
from rowtide.core.lsn import CommitLsn
from rowtide.databases.postgres.embedded import EmbeddedServer, StopMode

INSTANCES = {
    "public_account": "public_account",
    "account_again": "public_account",
    "public_entry": "public_entry",
    "entry_again": "public_entry",
}
"""The instances that come and go, each with its table's key in the workload's `COLUMNS`."""

_LONGEST_CALM_S = 3.0
_PAUSE_S = 2.0


@dataclass
class Storm:
    """A captured database, the capture process of the moment, what happened to both, and what readers saw.

    `seen` has for each read the maximum LSN and the transactions found up to it, by the instance's member id.
    """

    server: EmbeddedServer
    captured: CapturedDatabase
    directory: Path
    seed: int
    process: CaptureProcess = field(init=False)
    happened: list[str] = field(default_factory=list)
    seen: list[tuple[CommitLsn, dict[str, frozenset[int]]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._chosen = random.Random(self.seed)
        self._began = time.monotonic()
        self._deck: list[str] = []
        self._restart()

    @contextmanager
    def told(self) -> Iterator[None]:
        """Let a failure say how to have the same weather again."""
        try:
            yield
        except BaseException as error:
            error.add_note("\n".join([f"ROWTIDE_SOAK_SEED={self.seed}", *self.happened, self.process.messages()]))
            raise
        finally:
            self.process.__exit__(None, None, None)
            self.captured.session.close()

    def strike(self) -> None:
        """Let the next disturbance happen: all in a random order, then all again."""
        disturbances: dict[str, Callable[[], None]] = {
            "kill the log reader": self._kill_log_reader,
            "kill capture": self._kill_capture,
            "kill the JVM": self._kill_jvm,
            "stop the log reader a while": partial(self._stop_a_while, LOG_READER),
            "stop capture a while": self._stop_a_while,
            "crash the server": partial(self._restart_server, "immediate"),
            "restart the server": partial(self._restart_server, "fast"),
            "end all sessions": self._end_sessions,
            **{f"change membership {number}": self._change_membership for number in range(4)},
        }
        if not self._deck:
            self._deck = sorted(disturbances)
            self._chosen.shuffle(self._deck)
        name = self._deck.pop()
        self.process.require_alive()
        self._note(name)
        disturbances[name]()
        time.sleep(self._chosen.uniform(0, _LONGEST_CALM_S))

    def read(self) -> dict[str, History]:
        """Read what a user sees now, by member id; each transaction in it must be whole."""
        lsn = self.captured.cdc.get_max_lsn()
        if lsn is None:
            return {}
        found = self._read_instances(lsn)
        written = read_histories(self.captured.session)
        for member, history in found.items():
            for xid, rows in history.items():
                assert rows == written[member][xid], f"transaction {xid} of {member} up to {lsn}"
        assert not self.seen or self.seen[-1][0] <= lsn
        self.seen.append((lsn, {member: frozenset(history) for member, history in found.items()}))
        self._note(f"read up to {lsn}: {', '.join(f'{member} {len(rows)}' for member, rows in found.items())}")
        return found

    def _read_instances(self, lsn: CommitLsn) -> dict[str, History]:
        """Read the instances that begin below an LSN, without those that end meanwhile: of them nothing is promised."""
        asked = {name: member for name, member, low in self._list_instances() if low <= lsn}
        xids = read_transactions(self.captured)
        found = {}
        for name, member in asked.items():
            with suppress(InstanceUnknown, LsnOutOfRange):
                found[member] = read_instance(self.captured, name, INSTANCES[name], lsn, xids)
        return {member: found[member] for _, member, _ in self._list_instances() if member in asked.values()}

    def _list_instances(self) -> list[tuple[str, str, CommitLsn]]:
        recorded = self.captured.cdc.list_recorded_instances()
        return [(found.instance.capture_instance, found.instance.member_id, found.lsn) for found in recorded]

    def _kill_log_reader(self) -> None:
        os.kill(self.process.wait_child(LOG_READER), signal.SIGKILL)

    def _kill_capture(self) -> None:
        self._wait_cycle()
        self.process.process.kill()
        self.process.wait_killed()
        self._restart()

    def _kill_jvm(self) -> None:
        self._wait_cycle()
        os.kill(self.process.wait_child(JVM), signal.SIGKILL)
        assert self.process.process.wait(60) == 1
        assert self.process.messages().splitlines()[-1].startswith("RT-3105: ")
        self._restart()

    def _stop_a_while(self, child: str | None = None) -> None:
        """Stop a process until the server has long forgotten it."""
        pid = self.process.process.pid if child is None else self.process.wait_child(child)
        os.kill(pid, signal.SIGSTOP)
        self._end_sessions()
        time.sleep(_PAUSE_S)
        os.kill(pid, signal.SIGCONT)

    def _restart_server(self, mode: StopMode) -> None:
        self.captured.session.close()
        self.server.restart(mode)
        self.captured.session = psycopg.connect(self.captured.url, autocommit=True)

    def _end_sessions(self) -> None:
        self.captured.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and application_name like 'rowtide%'"
        )

    def _change_membership(self) -> None:
        """Enable an instance that is not, or disable one that is; never the last."""
        enabled = {listed.capture_instance for listed in self.captured.cdc.list_instances()}
        name = self._chosen.choice(sorted(INSTANCES.keys() - enabled if len(enabled) < 2 else INSTANCES))
        table = INSTANCES[name].replace("_", ".")
        self._note(f"{'disable' if name in enabled else 'enable'} {name}")
        if name in enabled:
            self.captured.cdc.disable_table(table, capture_instance=name)
        else:
            self.captured.cdc.enable_table(table, capture_instance=name)

    def _wait_cycle(self) -> None:
        """A process that is killed before it has done anything shows nothing."""
        wait_until(lambda: "cycle " in self.process.messages(), what="a cycle of this capture process")

    def _restart(self) -> None:
        self.process = CaptureProcess(self.captured.url, self.directory)

    def _note(self, event: str) -> None:
        self.happened.append(f"{time.monotonic() - self._began:6.1f} s  {event}")
