"""Prints docs/reference/metrics.md from the catalogue of metrics, as `make metrics-reference` keeps it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

from rowtide.monitor.catalogue import ACTIONS, AGENT_METRICS, BUILD_INFO, METRICS, Metric
from rowtide.monitor.counters import BUCKETS
from rowtide.monitor.views import MERGE_STATES, SUBSCRIPTION_STATES

HEAD = """# Metrics

`rowtide monitor serve` serves these metrics at `/metrics`, for Prometheus ([how to monitor](../how-to/monitor.md)). All
but `rowtide_build_info` have the label `database`: the database's name, with its server where two have one name.

- What could not be read is absent, never 0; `rowtide_up` says so. `rowtide_health_state` says of each subject that
  it is unknown, and why it may be.
- Counters begin with what a database has recorded, and never go backwards: the monitor keeps them in its file, by the
  server's system identifier, over its own restarts, crashes of the server and failovers. After a failover, what was
  recorded last may be missing.
- A label `subscriber` is the subscriber's stored URL without user, password and settings: the same for every role. No
  label has a row's value.
- Labels of the table that a series has not (errors of the log reader have no subscription) are empty.
"""
OF_AGENTS = """`--metrics-listen` and `--metrics-file` publish what a command does itself
([how to](../how-to/monitor.md#metrics-of-commands)). Series begin with the command. `rowtide_job_failed` and
`rowtide_validation_failed` are known to no monitor. Errors are counted by `RT-` number, others by their kind. A label
`publication` is empty for batches, which have commands of several.
"""


def page() -> str:
    """Return the page's text."""
    states = [
        *_of_agents(),
        "",
        "## States",
        "",
        f"`rowtide_subscription_state`: {_listed(SUBSCRIPTION_STATES.values())}.",
        "",
        f"`rowtide_merge_subscriptions`: {_listed(MERGE_STATES.values())}.",
        "",
        f"Buckets of histograms, in seconds: {', '.join(f'{bound:g}' for bound in BUCKETS)}.",
        "",
        "This page is made from the code by `scripts/metrics_reference.py`.",
    ]
    return "\n".join([HEAD, *_table((*METRICS, ACTIONS)), "", *states]) + "\n"


def _of_agents() -> Iterator[str]:
    yield "## Metrics of commands"
    yield ""
    yield OF_AGENTS
    yield from _table(AGENT_METRICS)


def _table(metrics: Iterable[Metric]) -> Iterator[str]:
    yield "| name | type | unit | labels | meaning |"
    yield "|---|---|---|---|---|"
    yield _row(BUILD_INFO, BUILD_INFO.labels)
    for metric in metrics:
        yield _row(metric, ("database", *metric.labels))


def _row(metric: Metric, labels: tuple[str, ...]) -> str:
    cells = (f"`{metric.name}`", metric.type, metric.unit, _listed(labels), metric.help)
    return f"| {' | '.join(cells)} |"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


if __name__ == "__main__":
    sys.stdout.write(page())
