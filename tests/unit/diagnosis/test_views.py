from __future__ import annotations

from dataclasses import replace

import pytest

from builders.commands.check_facts import database, place, server
from rowtide.diagnosis import CheckResult, Code, State, Stopped, require_nothing_stops
from rowtide.diagnosis.postgres.views import check_facts
from rowtide.diagnosis.result import Checked
from rowtide.diagnosis.views import choose_work
from rowtide.rights.purpose import Purpose


def test_the_worst_comes_first() -> None:
    facts = database(server=server(version=15, wal_level="replica"), places=(place(free_bytes=0),))
    assert [(result.state, result.subject) for result in check_facts(facts)] == [
        (State.FAILING, "server"),
        (State.WARNING, "server"),
        (State.WARNING, "lake"),
        (State.HEALTHY, "server"),
    ]


def test_only_stopping_findings_raise_with_each_subject_once() -> None:
    results = [CheckResult(Code.DISK_FULL_SOON, State.WARNING, "lake", "it is nearly full")]
    require_nothing_stops(results)
    failing = ("server", "role app", "server")
    results += [CheckResult(Code.WAL_LEVEL_LOW, State.FAILING, subject, "it is not") for subject in failing]
    with pytest.raises(Stopped, match="RT-5101: work is stopped by server, role app"):
        require_nothing_stops(results)


LATE = CheckResult(Code.LOG_READER_LATE, State.WARNING, "log reader", "it runs, late")
LOST = CheckResult(Code.SLOT_LOST, State.FAILING, "slot", "it is lost")
DAMAGED = CheckResult(Code.TRACKING_LOST, State.FAILING, "table t", "its tracking is lost")
UNSEEN = CheckResult(Code.MERGE_UNKNOWN, State.UNKNOWN, "merge", "permission denied")
RUNS = CheckResult(Code.CAPTURE_HEALTHY, State.HEALTHY, "capture", "it runs")


def test_a_check_says_a_thing_once_whatever_its_words() -> None:
    said = replace(LOST, message="the server has invalidated it")
    assert list(choose_work(Checked((said,), work=(LOST, LATE, RUNS)), None)) == [LATE]
    of_another = replace(LOST, subject="slot s")
    assert list(choose_work(Checked((of_another,), work=(LOST,)), None)) == [LOST]


def test_what_is_known_of_a_subject_is_not_unknown_beside_it() -> None:
    known = CheckResult(Code.MERGE_ARTICLE_DAMAGED, State.FAILING, "merge", "a trigger is missing")
    assert list(choose_work(Checked((known,), work=(UNSEEN,)), None)) == []
    assert list(choose_work(Checked((), work=(UNSEEN,)), None)) == [UNSEEN]


@pytest.mark.parametrize(
    ("purpose", "said"),
    [
        (None, (LATE, LOST, DAMAGED, UNSEEN)),
        (Purpose.MONITOR, (LATE, LOST, UNSEEN)),
        (Purpose.PUBLISHER, (LATE, LOST)),
        (Purpose.READER, ()),
        (Purpose.MERGE, (UNSEEN,)),
    ],
)
def test_a_purpose_chooses_by_area(purpose: Purpose | None, said: tuple[CheckResult, ...]) -> None:
    work = (LATE, LOST, DAMAGED, UNSEEN, RUNS)
    assert tuple(choose_work(Checked((), work=work), purpose)) == said
