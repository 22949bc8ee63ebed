"""Methods that were renamed answer to the names that programs know."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import rowtide
from rowtide.cdc import Changes
from rowtide.cdc.api import ChangeDataCapture
from rowtide.core.earlier_names import earlier_name
from rowtide.merge.api import MergeReplication
from rowtide.replication.api import TransactionalReplication

LSNS = {"min_lsn": "get_min_lsn", "max_lsn": "get_max_lsn", "validity_interval": "get_validity_interval"}
JOBS = {"help_jobs": "list_jobs", "log_scan_sessions": "list_scan_sessions", "log_scan_errors": "list_scan_errors"}
RENAMED: dict[type, dict[str, str]] = {
    ChangeDataCapture: LSNS | JOBS | {"instances": "list_recorded_instances"},
    Changes: LSNS | {"instances": "list_recorded_instances", "ddl_history": "get_ddl_history"},
    TransactionalReplication: {
        "history": "list_history",
        "errors": "list_errors",
        "tracer_tokens": "list_tracer_tokens",
    },
    MergeReplication: {
        "synchronise": "sync",
        "conflicts": "list_conflicts",
        "history": "list_history",
        "row": "list_row_replicas",
    },
}


@pytest.mark.parametrize(
    ("owner", "earlier", "name"),
    [(owner, earlier, name) for owner, names in RENAMED.items() for earlier, name in names.items()],
)
def test_an_earlier_name_is_the_method_of_today(owner: type, earlier: str, name: str) -> None:
    assert getattr(owner, earlier).__wrapped__ is getattr(owner, name)


def test_an_earlier_name_takes_and_returns_the_same_and_warns() -> None:
    def add(one: int, *, other: int) -> int:
        return one + other

    plus: Callable[..., int] = earlier_name("plus", add)

    with pytest.warns(DeprecationWarning, match=r"plus\(\) is add\(\) now") as said:
        assert plus(1, other=2) == 3
    assert said[0].filename == __file__


def test_a_program_written_for_an_earlier_name_goes_on(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'shop.db'}"
    (tmp_path / "shop.db").touch()

    with rowtide.connect(url) as database, pytest.warns(DeprecationWarning, match="list_conflicts"):
        assert database.merge.conflicts() == ()
