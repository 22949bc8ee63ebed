"""A standalone master with two workers of one core, started from the package pyspark.

A test's own process has a Spark of its own, and only one: drivers on the cluster are processes.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.request import urlopen

_HOST = "127.0.0.1"
_WORKERS = 2
_DEADLINE_S = 120.0
_DRIVER_S = 400.0
_JAVA = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
_SETTINGS = (
    "spark.executor.memory=512m",
    "spark.driver.memory=512m",
    f"'spark.executor.extraJavaOptions={_JAVA}'",
)


@dataclass(frozen=True, slots=True)
class SparkCluster:
    """A running cluster, and what its drivers need to know."""

    master: str
    environment: Mapping[str, str]
    start_worker: Callable[[], subprocess.Popen[bytes]]
    await_workers: Callable[[], None]
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def run(self, *command: str, **environment: str) -> str:
        """Run a command as a driver; return what it prints. Its errors fail the test."""
        ran = subprocess.run(
            [sys.executable, *command],
            capture_output=True,
            text=True,
            check=False,
            timeout=_DRIVER_S,
            env={**self.environment, **environment},
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout

    def rowtide(self, *arguments: str) -> str:
        """Run a command of rowtide's on the cluster, whose workers have this machine's folders."""
        return self.run(*self.command(*arguments))

    def command(self, *arguments: str) -> list[str]:
        """Return the arguments for Python of a command of rowtide's, as above."""
        return ["-m", "rowtide", *arguments, "--master", self.master, "--shared-storage"]

    def run_program(self, program: str, *arguments: str, **environment: str) -> Any:
        """Run a Python program on the cluster; return what it prints, which is JSON."""
        return json.loads(self.run("-c", program, *arguments, **self._variables(), **environment))

    def start(self, *command: str, **environment: str) -> subprocess.Popen[bytes]:
        """Start a command as a driver, in a group of its own, to be killed."""
        return subprocess.Popen(
            [sys.executable, *command],
            env={**self.environment, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def start_program(self, program: str, *arguments: str, **environment: str) -> subprocess.Popen[bytes]:
        """Start a Python program on the cluster, to be killed."""
        return self.start("-c", program, *arguments, **self._variables(), **environment)

    def _variables(self) -> dict[str, str]:
        return {
            "ROWTIDE_SPARK_CONF": f"{self.environment['ROWTIDE_SPARK_CONF']} spark.master={self.master}",
            "ROWTIDE_SHARED_STORAGE": "1",
        }

    def kill_executor(self) -> None:
        """Kill an executor; its worker starts another one."""
        executors = [executor for worker in self.workers for executor in _children(worker.pid)]
        os.kill(executors[0], signal.SIGKILL)

    def kill_executors(self) -> None:
        """Kill all executors, also those that are started until the master knows that a driver is gone."""
        deadline = time.monotonic() + _DEADLINE_S
        while executors := [executor for worker in self.workers for executor in _children(worker.pid)]:
            assert time.monotonic() < deadline, "executors are started again and again"
            for executor in executors:
                with suppress(ProcessLookupError):
                    os.kill(executor, signal.SIGKILL)
            time.sleep(0.1)

    def kill_worker(self) -> None:
        """Kill a worker together with its executors."""
        worker = self.workers.pop()
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()

    def replace_workers(self) -> None:
        """Start as many workers as were killed, and wait until the master knows them."""
        while len(self.workers) < _WORKERS:
            self.workers.append(self.start_worker())
        self.await_workers()

    def await_busy_executor(self) -> int:
        """Wait until an executor runs Python for a task; return the executor's process."""
        deadline = time.monotonic() + _DEADLINE_S
        while time.monotonic() < deadline:
            for worker in self.workers:
                busy = [executor for executor in _children(worker.pid) if _children(executor)]
                if busy:
                    return busy[0]
            time.sleep(0.02)
        raise AssertionError("no executor runs a task")

    def await_no_executor(self) -> None:
        """Wait until the workers have ended the executors of drivers that are gone."""
        deadline = time.monotonic() + _DEADLINE_S
        while any(_children(worker.pid) for worker in self.workers):
            assert time.monotonic() < deadline, "executors stay"
            time.sleep(0.1)


@contextmanager
def running_cluster(place: Path, *, is_pinned: bool = False) -> Iterator[SparkCluster]:
    """Run a master and two workers, whose folders and messages are in a place; pinned, each to a core of its own."""
    import pyspark

    home = Path(pyspark.__file__).parent
    port, web = _free_port(), _free_port()
    master = f"spark://{_HOST}:{port}"
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": _HOST,
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": _JAVA,
        "PYSPARK_PYTHON": sys.executable,
        "ROWTIDE_SPARK_CONF": " ".join(_SETTINGS),
    }
    classes = "org.apache.spark.deploy"
    started: list[subprocess.Popen[bytes]] = []

    def start(name: str, *arguments: str, prefix: Sequence[str] = ()) -> subprocess.Popen[bytes]:
        command = [*prefix, str(home / "bin" / "spark-class"), f"{classes}.{name}", "--host", _HOST, *arguments]
        with (place / f"{len(started)}.log").open("wb") as log:
            # With the executors that a worker starts, a group of its own.
            process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)
        started.append(process)
        return process

    def start_worker() -> subprocess.Popen[bytes]:
        number = len(started) - 1
        folder = str(place / f"worker-{number}")
        size = ("--cores", "1", "--memory", "1g")
        prefix = ("taskset", "--cpu-list", str(number)) if is_pinned else ()
        return start("worker.Worker", *size, "--webui-port", "0", "-d", folder, master, prefix=prefix)

    cluster = SparkCluster(
        master, environment, start_worker, lambda: _wait_for_workers(web, [first, *cluster.workers], place)
    )
    try:
        first = start("master.Master", "--port", str(port), "--webui-port", str(web))
        cluster.replace_workers()
        yield cluster
    finally:
        for process in (process for process in started if process.returncode is None):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _children(process: int) -> list[int]:
    """Return a process's children that run: Java never asks after one that the script left before it became Java."""
    children = []
    with suppress(OSError):
        for thread in Path(f"/proc/{process}/task").iterdir():
            children += [int(child) for child in (thread / "children").read_text().split()]
    return [child for child in children if _is_running(child)]


def _is_running(process: int) -> bool:
    try:
        # After the command's name, which is in parentheses: the state.
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _free_port() -> int:
    with socket.create_server((_HOST, 0)) as free:
        port: int = free.getsockname()[1]
        return port


def _wait_for_workers(web: int, started: Sequence[subprocess.Popen[bytes]], place: Path) -> None:
    deadline = time.monotonic() + _DEADLINE_S
    while time.monotonic() < deadline and all(process.poll() is None for process in started):
        with suppress(OSError), urlopen(f"http://{_HOST}:{web}/json/", timeout=5) as answer:
            if json.load(answer)["aliveworkers"] == _WORKERS:
                return
        time.sleep(0.1)
    raise AssertionError("\n".join(log.read_text() for log in sorted(place.glob("*.log"))))
