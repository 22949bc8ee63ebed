"""The kinds of databases: schemes, drivers, and the parts that packages have for each."""

from __future__ import annotations

import pytest

from rowtide.databases.kinds import DatabaseKind, find_kind, find_kind_of_driver

PARTS = [
    ("rowtide.databases", "connect", "open_url"),
    ("rowtide.merge.nodes", "node", "open_node"),
    ("rowtide.diagnosis", "views", "check"),
    ("rowtide.diagnosis", "views", "read_health"),
    ("rowtide.tracking", "tracking", "open_tracking"),
]
"""Every part that is loaded by its kind, with the name that its package uses."""


@pytest.mark.parametrize("kind", DatabaseKind)
@pytest.mark.parametrize(("package", "module", "name"), PARTS)
def test_a_package_has_its_part_for_each_kind(kind: DatabaseKind, package: str, module: str, name: str) -> None:
    assert callable(getattr(kind.load_part(package, module), name))


@pytest.mark.parametrize(
    ("scheme", "kind"),
    [
        ("postgresql", DatabaseKind.POSTGRESQL),
        ("POSTGRES", DatabaseKind.POSTGRESQL),
        ("sqlite", DatabaseKind.SQLITE),
        ("mysql", None),
    ],
)
def test_a_scheme_names_a_kind(scheme: str, kind: DatabaseKind | None) -> None:
    assert find_kind(scheme) is kind


@pytest.mark.parametrize(
    ("driver", "kind"), [("psycopg", DatabaseKind.POSTGRESQL), ("sqlite3", DatabaseKind.SQLITE), ("pymysql", None)]
)
def test_a_driver_connects_to_a_kind(driver: str, kind: DatabaseKind | None) -> None:
    assert find_kind_of_driver(driver) is kind
