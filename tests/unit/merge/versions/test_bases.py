"""What an additive column was before, and how changes of two nodes add up."""

from __future__ import annotations

import json

import pytest

from rowtide.merge.versions.bases import add_up, append
from rowtide.merge.versions.lineage import Change, Lineage

NODE = 7
BEGUN = json.dumps([[0, "10"]])


def knowing(*versions: int) -> Lineage:
    return Lineage.of(Change(NODE, version) for version in versions)


def test_both_changes_count_once() -> None:
    assert add_up(BEGUN, knowing(), NODE, "13", "15") == "18"


def test_what_came_before_its_sender_knew_is_not_counted_again() -> None:
    bases = append(append(BEGUN, 4, "13"), 6, "20")

    assert add_up(bases, knowing(), NODE, "21", "15") == "26"
    assert add_up(bases, knowing(4), NODE, "21", "18") == "26"
    assert add_up(bases, knowing(6), NODE, "21", "25") == "26"


def test_a_repeat_is_nothing_new_and_the_first_is_kept() -> None:
    bases = BEGUN
    for version in range(1, 40):
        bases = append(bases, version, str(version))
        assert append(bases, version, str(version)) == bases

    pairs = json.loads(bases)
    assert pairs[0] == [0, "10"]
    assert pairs[-1] == [39, "39"]
    assert len(pairs) == 11


@pytest.mark.parametrize(
    ("sent", "known", "total"),
    [
        pytest.param(None, "5", "5", id="NULL and a number"),
        pytest.param("5", None, "5", id="a number and NULL"),
        pytest.param("10.50", "9.25", "9.75", id="decimals, exactly"),
        pytest.param("1e3", "12", "1002", id="no exponents"),
        pytest.param("many", "12", None, id="no number"),
        pytest.param("NaN", "12", None, id="not a number"),
    ],
)
def test_values_add_up_as_numbers(sent: str | None, known: str | None, total: str | None) -> None:
    assert add_up(BEGUN, knowing(), NODE, sent, known) == total


def test_a_base_of_null_says_nothing() -> None:
    assert add_up(json.dumps([[0, None]]), knowing(), NODE, "5", "6") is None
