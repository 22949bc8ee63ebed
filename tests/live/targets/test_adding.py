"""Defining targets: what does not fit the instances is refused before anything is made."""

from __future__ import annotations

from typing import Any

import pytest

from builders.capture.captured_databases import CapturedDatabase
from rowtide.handle import connect
from rowtide.targets.api import Targets
from rowtide.targets.errors import TargetInvalid
from rowtide.targets.options import Truncation


@pytest.fixture
def targets(captured: CapturedDatabase) -> Targets:
    """Two instances, whose tables have different columns, and one without a key."""
    captured.execute(
        'create table person (id int primary key, email text, "Name" text, name text)',
        "create table item (id int primary key, price int, at timestamptz)",
        "create table bag (id int)",
    )
    captured.enable("person", "item", "bag")
    return connect(captured.url).targets


def test_a_column_that_nothing_has_is_refused(targets: Targets) -> None:
    both = ("public_person", "public_item")
    misfits: dict[str, dict[str, Any]] = {
        "no instance of it has a column emial": {"except_column_list": ("price", "emial")},
        "no instance of it has a column phone": {"column_list": ("id", "phone")},
        "no instance of it has a column public_item.email": {"rename": {"public_item.email": "mail"}},
        "none of its tables has a column email": {"rename": {"email": "mail"}, "cluster_by": ("email",)},
        "none of its tables has a column area": {"partition_by": ("area",)},
        "in valid_to_lsn": {"kind": "history", "partition_by": ("valid_to_lsn",)},
        "at of public_item is of type timestamp": {"partition_by": ("price", "at")},
        "none of its tables has a column cost": {"kind": "history", "track_history_except_column_list": ("cost",)},
    }
    for problem, options in misfits.items():
        with pytest.raises(TargetInvalid, match=problem):
            targets.add("t", both, path="/t", **options)
    assert targets.list_definitions() == ()
    # What one instance has is enough, by readers' names; the table's own columns count as well.
    fitting: dict[str, Any] = {
        "except_column_list": ("price", "public_person.name_2"),
        "rename": {"email": "mail"},
        "columns": {"domain": "substring_index(email, '@', -1)"},
        "track_history_column_list": ("mail", "domain"),
        "cluster_by": ("mail", "is_current"),
    }
    targets.add("t", both, kind="history", path="/t", **fitting)
    # An expression may make a day of it.
    targets.add("u", both, path="/u", columns={"public_item.at": "date(at)"}, partition_by=("at", "name_2"))
    # Going over to a newer instance would take away what was kept over a truncate.
    targets.add("v", both, path="/v", truncate=Truncation.KEEP)
    targets.add("w", both, path="/w", follow_columns=False)
    follows = {target.name: target.options.follow_columns for target in targets.list_definitions()}
    assert follows == {"t": True, "u": True, "v": False, "w": False}


def test_instances_without_a_key_need_a_class_of_their_own(targets: Targets) -> None:
    with pytest.raises(TargetInvalid, match="public_bag has no net changes"):
        targets.add("t", ("public_item", "public_bag"), path="/t")
    assert targets.list_definitions() == ()
    targets.add("t", ("public_bag",), kind="python:any.Class")
    assert [target.kind for target in targets.list_definitions()] == ["python:any.Class"]
