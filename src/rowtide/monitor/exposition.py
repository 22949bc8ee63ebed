"""Metrics as Prometheus scrapes them: the text format and OpenMetrics."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import version
from itertools import accumulate

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from rowtide.core.values import frozen
from rowtide.monitor.agent_figures import AgentFigures
from rowtide.monitor.catalogue import ACTIONS, AGENT_METRICS, BUILD_INFO, METRICS, Metric, MetricType
from rowtide.monitor.counters import BUCKETS, DatabaseCounters, Histogram
from rowtide.monitor.views import DatabaseView, StateChange


@frozen
class Polled:
    """The results of a database's last poll, and a copy of its counters.

    `last_read` is the view of the last poll that could read it, None if none could; `changes` are those of the last
    hour, oldest first, as far as a monitor ran.
    """

    view: DatabaseView
    counted: DatabaseCounters
    last_read: DatabaseView | None = None
    changes: tuple[StateChange, ...] = ()


ActionCounts = Mapping[tuple[str, str, str], int]
"""How many actions have ended, by database, action and result."""


def render(
    polled: Iterable[Polled], *, device_series: bool, accept: str = "", actions: ActionCounts | None = None
) -> tuple[bytes, str]:
    """Return all metrics, in the format that a scraper accepts, and its content type."""
    encode, content_type = choose_encoder(accept)
    families = [*collect(polled, device_series=device_series), *_count_actions(actions or {})]
    return encode(_registry(families)), content_type


def render_agent(figures: AgentFigures, accept: str = "") -> tuple[bytes, str]:
    """Return the figures of a command, in the format that a scraper accepts, and its content type."""
    encode, content_type = choose_encoder(accept)
    return encode(_registry(_collect_agent(figures))), content_type


def collect(polled: Iterable[Polled], *, device_series: bool) -> Iterator[Family]:
    """Yield the families of metrics that have a sample."""
    yield _build_info()
    databases = tuple(polled)
    for metric in METRICS:
        if device_series or not metric.per_device:
            family = _COLLECTORS[metric.type](metric, databases)
            if family.samples:
                yield family


def _collect_agent(figures: AgentFigures) -> Iterator[Family]:
    yield _build_info()
    for metric in AGENT_METRICS:
        labels = ("database", *metric.labels)
        if metric.type is MetricType.HISTOGRAM:
            family: Family = _measured(metric, labels, figures)
        else:
            family = _FAMILIES[metric.type](metric.name, metric.help, labels=labels)
            for (name, values), value in figures.values.items():
                if name == metric.name:
                    family.add_metric(values, value)
        if family.samples:
            yield family


def _measured(metric: Metric, labels: tuple[str, ...], figures: AgentFigures) -> Family:
    family = HistogramMetricFamily(metric.name, metric.help, labels=labels)
    for (name, values), histogram in figures.histograms.items():
        if name == metric.name:
            family.add_metric(values, _buckets(histogram), histogram.sum)
    return family


def _build_info() -> Family:
    build = GaugeMetricFamily(BUILD_INFO.name, BUILD_INFO.help, labels=BUILD_INFO.labels)
    build.add_metric((version("rowtide"), platform.python_version()), 1)
    return build


def _count_actions(actions: ActionCounts) -> Iterator[Family]:
    if actions:
        family = CounterMetricFamily(ACTIONS.name, ACTIONS.help, labels=("database", *ACTIONS.labels))
        for labels, count in sorted(actions.items()):
            family.add_metric(labels, count)
        yield family


def _registry(families: Iterable[Family]) -> CollectorRegistry:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Made(tuple(families)))
    return registry


class _Made(Collector):
    """Families of metrics that were collected already."""

    def __init__(self, families: tuple[Family, ...]) -> None:
        self._families = families

    def collect(self) -> Iterable[Family]:
        return self._families


def _gauges(metric: Metric, databases: Iterable[Polled]) -> Family:
    family = GaugeMetricFamily(metric.name, metric.help, labels=("database", *metric.labels))
    for polled in databases:
        # Two URLs that differ only in their users have one label: the larger value is kept, since a series may occur
        # once.
        values: dict[tuple[str, ...], float] = {}
        for sample in metric.source(polled.view) if metric.source is not None else ():
            values[sample.labels] = max(values.get(sample.labels, sample.value), sample.value)
        for labels, value in values.items():
            family.add_metric((polled.view.name, *labels), float(value))
    return family


def _counters(metric: Metric, databases: Iterable[Polled]) -> Family:
    family = CounterMetricFamily(metric.name, metric.help, labels=("database", *metric.labels))
    for polled in databases:
        for (name, labels), value in polled.counted.counters.items():
            if name == metric.name and polled.view.is_up:
                known = dict(labels)
                family.add_metric((polled.view.name, *(known.get(label, "") for label in metric.labels)), value)
    return family


def _histograms(metric: Metric, databases: Iterable[Polled]) -> Family:
    family = HistogramMetricFamily(metric.name, metric.help, labels=("database", *metric.labels))
    for polled in databases:
        for (name, labels), histogram in polled.counted.histograms.items():
            if name == metric.name and polled.view.is_up:
                known = dict(labels)
                values = (polled.view.name, *(known.get(label, "") for label in metric.labels))
                family.add_metric(values, _buckets(histogram), histogram.sum)
    return family


def _buckets(histogram: Histogram) -> list[tuple[str, float]]:
    bounds = [*(str(bound) for bound in BUCKETS), "+Inf"]
    return list(zip(bounds, map(float, accumulate(histogram.counts)), strict=True))


_FAMILIES: Mapping[MetricType, type[GaugeMetricFamily] | type[CounterMetricFamily]] = {
    MetricType.GAUGE: GaugeMetricFamily,
    MetricType.COUNTER: CounterMetricFamily,
}
_COLLECTORS = {MetricType.GAUGE: _gauges, MetricType.COUNTER: _counters, MetricType.HISTOGRAM: _histograms}
