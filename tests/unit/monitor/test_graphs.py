"""Pictures of many things: the graph of deliveries, and the heat strip of tables."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from builders.monitor.made_views import LARGE, make_database, make_merge, make_subscription
from rowtide.diagnosis import State
from rowtide.monitor.gauge_series import Point
from rowtide.monitor.web.graphs import CELLS, draw_heat, draw_topology, format_rate, list_deliveries

BEGIN = datetime(2026, 11, 30, tzinfo=UTC)
END = BEGIN + timedelta(hours=24)


def test_a_republisher_is_one_node_between_two() -> None:
    views = [
        make_database("head", subscriptions=[make_subscription("stock", "//db2/branch")]),
        make_database("branch", subscriptions=[make_subscription("onward", "//db3/till")], delivered_here=["stock"]),
        make_database("till", delivered_here=["onward"]),
        make_database("other", delivered_here=[]),
    ]
    graph = draw_topology(list_deliveries(views))
    assert graph is not None
    ordered = sorted(graph.nodes, key=lambda node: node.x)
    assert [node.name for node in ordered] == ["head", "stock", "branch", "onward", "till"]
    assert len({node.x for node in ordered}) == 5
    assert {node.kind for node in ordered} == {"known", "publication"}
    assert [one.to for one in graph.deliveries] == ["branch", "till"]


def test_a_subscriber_that_is_not_surely_known_is_another_node() -> None:
    """Two databases have its name, or it does not receive the publication."""
    views = [
        make_database("head", subscriptions=[make_subscription("stock", "//db2/shop")]),
        make_database("db2/shop", delivered_here=["stock"]),
        make_database("db3/shop", delivered_here=["stock"]),
    ]
    assert [one.to for one in list_deliveries(views)] == [None]
    assert [one.to for one in list_deliveries(views[:2])] == ["db2/shop"]


def test_databases_that_publish_to_each_other_are_drawn() -> None:
    views = [
        make_database("north", subscriptions=[make_subscription("peers", "//b/south")], delivered_here=["peers"]),
        make_database("south", subscriptions=[make_subscription("peers", "//a/north")], delivered_here=["peers"]),
    ]
    graph = draw_topology(list_deliveries(views))
    assert graph is not None
    assert (len(graph.nodes), len(graph.edges)) == (4, 4)


def test_many_subscribers_are_a_few_nodes_and_the_rest() -> None:
    deliveries = list_deliveries([LARGE, make_database("hub", merges=[make_merge("field", 10_000)])])
    of_hub = [one for one in deliveries if one.source == "hub"]
    assert len(of_hub) == 7
    assert sum(one.count for one in of_hub) == 10_000
    assert of_hub[0].severity is State.FAILING, "the worst are drawn one by one"
    graph = draw_topology(deliveries)
    assert graph is not None
    assert len(graph.nodes) < 70
    places = {(node.x, node.y) for node in graph.nodes}
    assert len(places) == len(graph.nodes)
    assert all(node.y + node.height <= graph.height for node in graph.nodes)
    assert draw_topology(list_deliveries([make_database("empty")])) is None


def make_points(*values: float | None, minutes: int = 30) -> list[Point]:
    return [Point(BEGIN + timedelta(minutes=minutes * number), value) for number, value in enumerate(values)]


def test_a_heat_strip_has_the_busiest_first() -> None:
    strip = draw_heat(
        {"quiet": make_points(5, 5, 5), "busy": make_points(0, 1800, 5400), "some": make_points(10, 28, 28)}, BEGIN, END
    )
    assert strip is not None
    assert [(row.table, row.total) for row in strip.rows] == [("busy", 5400), ("some", 18)]
    busy, some = strip.rows
    assert [cell.step for cell in busy.cells[1:3]] == [4, 5]
    assert [cell.step for cell in some.cells[1:3]] == [1, 0]
    assert len(busy.cells) == CELLS
    assert all(cell.step is None for cell in busy.cells[3:])
    assert "the busiest is busy" in strip.summary


def test_a_counter_that_is_begun_again_does_not_go_back() -> None:
    strip = draw_heat({"item": make_points(1000, 1100, None, 40)}, BEGIN, END)
    assert strip is not None
    assert strip.rows[0].total == 140
    assert strip.rows[0].cells[2].title.endswith("not known")
    assert draw_heat({"item": make_points(7)}, BEGIN, END) is None


def test_rates_are_written_with_their_unit() -> None:
    assert [format_rate(rate) for rate in (0, 0.001, 1 / 60, 0.5, 1234.5)] == [
        "no changes",
        "3.6 changes an hour",
        "1 change a minute",
        "30 changes a minute",
        "1,234 changes a second",
    ]
