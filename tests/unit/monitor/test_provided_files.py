"""Alerts and panels speak of metrics and labels that there are, and of runbooks that there are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from builders.monitor.rules import Alert, Panel, list_alerts, list_panels
from rowtide.monitor.catalogue import AGENT_METRICS, BUILD_INFO, METRICS, MetricType
from rowtide.monitor.provided_files import read_alerts

ROOT = Path(__file__).parents[3]
RUNBOOKS = ROOT / "docs" / "how-to" / "runbooks.md"
OF_SCRAPES = {"job", "instance"}
"""Labels that Prometheus gives to what it scrapes; it renames a metric's own."""
ALERTS, PANELS = list_alerts(), list(list_panels())


def list_series() -> dict[str, set[str]]:
    """Return the labels of each series by its name."""
    found: dict[str, set[str]] = {BUILD_INFO.name: set(BUILD_INFO.labels)}
    for metric in (*METRICS, *AGENT_METRICS):
        labels = {"database", *metric.labels}
        labels |= {f"exported_{label}" for label in labels & OF_SCRAPES}
        if metric.type is MetricType.HISTOGRAM:
            found |= {
                f"{metric.name}_bucket": labels | {"le"},
                f"{metric.name}_sum": labels,
                f"{metric.name}_count": labels,
            }
        else:
            found[metric.name] = labels
    return found


def require_known(expression: str, shown: set[str]) -> None:
    """The expression's series and labels are there, and so are the labels that a text shows."""
    series = list_series()
    used = re.findall(r"(rowtide_\w+)(?:\{(.*?)\})?", expression)
    assert used
    for name, selectors in used:
        assert name in series, name
        assert set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", selectors)) <= series[name], selectors
    labels = [series[name] for name, _ in used]
    kept = _list_labels(r"\bby", expression)
    assert kept | _list_labels(r"\bon", expression) <= set.intersection(*labels)
    assert shown <= (kept or set.union(*labels))


def _list_labels(keyword: str, expression: str) -> set[str]:
    found = re.findall(rf"{keyword} \((.*?)\)", expression)
    return {label for labels in found for label in re.findall(r"\w+", labels)}


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_an_alert_speaks_of_metrics_that_there_are(alert: Alert) -> None:
    require_known(alert.expression, set(re.findall(r"\$labels\.(\w+)", alert.summary)))


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel.title)
def test_a_panel_shows_metrics_that_there_are(panel: Panel) -> None:
    require_known(panel.expression, set(re.findall(r"\{\{(\w+)\}\}", panel.legend)))


def test_each_alert_has_a_runbook_and_each_runbook_an_alert() -> None:
    headings = re.findall(r"^## (\w+)$", RUNBOOKS.read_text(encoding="utf-8"), re.MULTILINE)
    assert headings == [alert.name for alert in ALERTS]
    for alert in ALERTS:
        assert alert.runbook == f"{RUNBOOKS.relative_to(ROOT)}#{alert.name.lower()}"
        assert alert.severity in ("critical", "warning")


def test_runbooks_are_where_the_pages_are_published() -> None:
    published = read_alerts("https://wiki.example.com/rowtide/")
    urls = re.findall(r"runbook_url: (.*)", published)
    assert len(urls) == len(ALERTS)
    assert urls[0] == "https://wiki.example.com/rowtide/how-to/runbooks.md#rowtidemonitordown"


def test_each_metric_is_shown_or_has_an_alert() -> None:
    text = " ".join([*(alert.expression for alert in ALERTS), *(panel.expression for panel in PANELS)])
    of_devices = {metric.name for metric in METRICS if metric.per_device}
    assert {metric.name for metric in METRICS if metric.name not in text} == of_devices
