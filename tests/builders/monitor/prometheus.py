"""A Prometheus that scrapes a monitor and evaluates the alerts."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

from builders.monitor.promtool import write_rules
from rowtide.listening import Address

PROGRAM = Path(sys.executable).with_name("prometheus")
_CONFIGURATION = """
global: {{scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 1s}}
rule_files: ["{rules}"]
scrape_configs:
  - job_name: rowtide
    honor_labels: {honor}
    static_configs: [{{targets: ["{address}"]}}]
"""
Labels = dict[str, str]


@dataclass(frozen=True)
class Prometheus:
    """A server that runs."""

    url: str

    def get(self, path: str, **parameters: str) -> Any:
        with urlopen(f"{self.url}/api/v1/{path}?{urlencode(parameters)}", timeout=10) as answer:
            found = json.load(answer)
        assert found["status"] == "success", found
        return found["data"]

    def query(self, expression: str) -> list[tuple[Labels, float]]:
        """Return the labels and the values of what an expression finds now."""
        found = self.get("query", query=expression)["result"]
        return [(one["metric"], float(one["value"][1])) for one in found]

    def query_until(
        self, expression: str, is_met: Callable[[list[tuple[Labels, float]]], bool]
    ) -> list[tuple[Labels, float]]:
        """Query until scrapes have found something."""
        deadline = time.monotonic() + 30
        while not is_met(found := self.query(expression)):
            assert time.monotonic() < deadline, (expression, found)
            time.sleep(0.1)
        return found


@contextmanager
def scraping(folder: Path, monitor: Address, *, honor_labels: bool = True) -> Iterator[Prometheus]:
    """Scrape a monitor, until the block ends."""
    folder.mkdir()
    configuration, log = folder / "prometheus.yml", folder / "log"
    configuration.write_text(
        _CONFIGURATION.format(rules=write_rules(folder), address=monitor, honor=str(honor_labels).lower())
    )
    options = (f"--config.file={configuration}", f"--storage.tsdb.path={folder / 'data'}")
    with log.open("wb") as written:
        server = subprocess.Popen([PROGRAM, *options, "--web.listen-address=127.0.0.1:0"], stderr=written)
    try:
        yield Prometheus(f"http://{_wait_for_address(server, log)}")
    finally:
        server.terminate()
        server.wait(20)


def _wait_for_address(server: subprocess.Popen[bytes], log: Path) -> str:
    deadline = time.monotonic() + 30
    while True:
        text = log.read_text()
        found = re.search(r'"Listening on" address=(\S+)', text)
        if found and "Server is ready" in text:
            return found[1]
        assert server.poll() is None, text
        assert time.monotonic() < deadline, text
        time.sleep(0.05)
