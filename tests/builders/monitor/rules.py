"""The alerts and panels that come with rowtide, read as Prometheus and Grafana read them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from rowtide.monitor.provided_files import read_alerts, read_dashboard


@dataclass(frozen=True)
class Alert:
    """A rule of the file of alerts."""

    name: str
    expression: str
    severity: str
    summary: str
    runbook: str


@dataclass(frozen=True)
class Panel:
    """An expression of a panel; of several each."""

    title: str
    expression: str
    legend: str


def list_alerts() -> list[Alert]:
    _, *rules = re.split(r"^ +- alert: ", read_alerts(), flags=re.MULTILINE)
    return [_parse(rule) for rule in rules]


def _parse(rule: str) -> Alert:
    name, _, rest = rule.partition("\n")
    keys = r"(?=^ +(?:for|labels|annotations|summary|runbook_url|expr):|\Z)"

    def read(key: str) -> str:
        found = re.search(rf"^ +{key}: (?:>-\n)?(.*?){keys}", rest, re.DOTALL | re.MULTILINE)
        assert found, f"{name} has no {key}"
        return " ".join(found[1].split())

    severity = re.fullmatch(r"\{severity: (\w+)\}", read("labels"))
    assert severity, name
    return Alert(name, read("expr"), severity[1], json.loads(read("summary")), read("runbook_url"))


def list_panels() -> Iterator[Panel]:
    for panel in json.loads(read_dashboard())["panels"]:
        for target in panel.get("targets", ()):
            yield Panel(panel["title"], target["expr"], target["legendFormat"])
