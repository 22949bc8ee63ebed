"""The files for Prometheus and Grafana that come with rowtide."""

from __future__ import annotations

from importlib.resources import files

_RUNBOOKS = "runbook_url: docs/"


def read_alerts(docs: str = "docs") -> str:
    """Return the rules of Prometheus; the runbooks are pages below `docs`, a URL or a folder."""
    return _read("alerts.yml").replace(_RUNBOOKS, f"{_RUNBOOKS.partition('docs/')[0]}{docs.rstrip('/')}/")


def read_dashboard() -> str:
    """Return the dashboard, as Grafana imports it."""
    return _read("grafana.json")


def _read(name: str) -> str:
    return files("rowtide.monitor").joinpath(name).read_text(encoding="utf-8")
