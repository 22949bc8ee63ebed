"""Each alert fires, stays over a scrape that fails, and resolves, as promtool evaluates it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from builders.monitor.promtool import ABSENT, MISSED, Course, Value, check_rules, require_courses
from builders.monitor.rules import list_alerts

DAY = 24 * 60
BEGIN = 10


@dataclass(frozen=True)
class Fault:
    """Series with their values before, during and after a fault, which has to last for some minutes."""

    series: dict[str, tuple[Value, Value, Value]]
    lasts: int
    begin: int = BEGIN
    beside: dict[str, Value] = field(default_factory=dict)
    """Series whose value stays."""


def of(series: str, good: Value, bad: Value, *, lasts: int) -> Fault:
    return Fault({series: (good, bad, good)}, lasts)


SUBSCRIBED = 'database="shop", publication="p", subscriber="s"'
SLOT = 'database="shop", slot="r"'
FAULTS = {
    "RowtideDown": [of('rowtide_up{database="shop"}', 1, 0, lasts=2)],
    "RowtideHealthFailing": [
        Fault(
            {'rowtide_health_state{database="shop", area="log", subject="slot"}': (value, 2, value)},
            5,
            beside={'rowtide_up{database="shop"}': 1},
        )
        for value in (0, 1, 3)
    ],
    "RowtideAgentNotRunning": [of('rowtide_agent_running{database="shop", agent="capture"}', 1, 0, lasts=5)],
    "RowtideCaptureLag": [of('rowtide_capture_lag_seconds{database="shop"}', 300, 301, lasts=5)],
    "RowtideSlotNearlyLost": [
        Fault(
            {f"rowtide_slot_safe_wal_bytes{{{SLOT}}}": (9e9, 1e9, 9e9)},
            5,
            beside={f"rowtide_slot_retained_wal_bytes{{{SLOT}}}": 9e9},
        ),
        *(
            Fault(
                {
                    f'rowtide_slot_info{{{SLOT}, wal_status="{status}", invalidation_reason=""}}': (ABSENT, 1, MISSED),
                    f'rowtide_slot_info{{{SLOT}, wal_status="reserved", invalidation_reason=""}}': (1, MISSED, 1),
                },
                5,
            )
            for status in ("unreserved", "lost")
        ),
    ],
    "RowtideWalGrowing": [of(f"rowtide_slot_retained_wal_bytes{{{SLOT}}}", 9e9, 11e9, lasts=5)],
    "RowtideOldTransaction": [
        of('rowtide_oldest_transaction_age_seconds{database="shop", kind="open"}', 3600, 3601, lasts=1)
    ],
    "RowtideDiskFull": [of('rowtide_disk_free_bytes{database="shop", place="lake"}', 2e9, 1e9, lasts=10)],
    "RowtideSubscriptionFailed": [
        of(f'rowtide_subscription_state{{{SUBSCRIBED}, state="{state}"}}', 0, 1, lasts=2)
        for state in ("failed", "deactivated")
    ],
    "RowtideSubscriptionRetentionMargin": [
        Fault(
            {f"rowtide_subscription_retention_margin_seconds{{{SUBSCRIBED}}}": (21600, 21599, 21600)},
            5,
            beside={f"rowtide_subscription_undelivered_commands{{{SUBSCRIBED}}}": 1},
        )
    ],
    "RowtideValidationFailed": [of(f'rowtide_validation_failed{{{SUBSCRIBED}, article="a"}}', 0, 1, lasts=1)],
    "RowtideConsumerAtRisk": [
        Fault(
            {
                'rowtide_consumer_margin_seconds{database="shop", consumer="c"}': (30, margin, 30),
                'rowtide_consumer_lag_seconds{database="shop", consumer="c"}': (70, 100 - margin, 70),
            },
            5,
        )
        for margin in (20, -20)
    ],
    "RowtideTargetStopped": [
        of('rowtide_target_stopped{database="shop", target="t", exported_instance="i"}', 0, 1, lasts=2)
    ],
    "RowtideMergeExpiry": [
        of('rowtide_merge_soonest_expiry_seconds{database="shop", publication="p"}', 2 * 86400, 86400, lasts=5)
    ],
    "RowtideConflictsOpen": [of('rowtide_merge_conflicts_open{database="shop", publication="p"}', 0, 3, lasts=DAY)],
    "RowtideCleanupMissed": [
        Fault(
            {f'rowtide_job_last_success_timestamp_seconds{{database="shop", {label}="cleanup"}}': (0, 0, 180_000)},
            60,
            # The tests' time begins in 1970.
            begin=2 * DAY + 1,
        )
        for label in ("job", "exported_job")
    ],
}


def follow(alert: str, fault: Fault) -> Course:
    """Return the course of a fault that comes and goes, with scrapes that fail before it, in it and while it fires."""
    fires = fault.begin + fault.lasts
    missed, ends = fires + 3, fires + 8
    series = {
        name: [good] * fault.begin + [bad] * (ends - fault.begin) + [after] * 10
        for name, (good, bad, after) in fault.series.items()
    }
    series |= {name: [value] * (ends + 10) for name, value in fault.beside.items()}
    for values in series.values():
        for minute in (fault.begin - 5, *([fault.begin + 1] if fault.lasts > 1 else []), missed):
            values[minute] = MISSED
    never = dict.fromkeys((fault.begin - 5, fault.begin - 1, fires - 1), False)
    always = dict.fromkeys((fires, missed, missed + 1, ends - 1), True)
    return Course(alert, series, never | always | {ends + 4: False})


def test_promtool_accepts_the_alerts(tmp_path: Path) -> None:
    check_rules(tmp_path)


def test_each_alert_has_a_fault() -> None:
    assert {*FAULTS, "RowtideMonitorDown"} == {alert.name for alert in list_alerts()}


def test_alerts_fire_outlive_a_missed_scrape_and_resolve(tmp_path: Path) -> None:
    require_courses(tmp_path, *(follow(alert, fault) for alert, faults in FAULTS.items() for fault in faults))


def test_a_monitor_that_is_not_scraped_is_noticed(tmp_path: Path) -> None:
    values: list[Value] = [*[1] * 10, MISSED, *[1] * 9, *[MISSED] * 10, *[1] * 5]
    expected = {10: False, 19: False, 23: False, 26: True, 31: False}
    series = {'rowtide_build_info{version="1", python="3"}': values}
    require_courses(tmp_path, Course("RowtideMonitorDown", series, expected))


def test_what_is_used_up_steadily_is_noticed_before_its_end(tmp_path: Path) -> None:
    free = [100e9] * 60 + [100e9 - minute * 0.5e9 for minute in range(90)] + [90e9] * 20
    kept = [0.0] * len(free)
    disk = {'rowtide_disk_free_bytes{database="shop", place="lake"}': free}
    slot = {f"rowtide_slot_safe_wal_bytes{{{SLOT}}}": free, f"rowtide_slot_retained_wal_bytes{{{SLOT}}}": kept}
    expected = {59: False, 149: True, 165: False}
    require_courses(
        tmp_path, Course("RowtideDiskFull", disk, expected), Course("RowtideSlotNearlyLost", slot, expected)
    )


def test_what_is_no_fault_fires_nothing(tmp_path: Path) -> None:
    """A slot that is limited fills no disk; a subscriber that has everything misses nothing; one alert is enough."""
    limited = {
        f"rowtide_slot_retained_wal_bytes{{{SLOT}}}": [11e9] * 20,
        f"rowtide_slot_safe_wal_bytes{{{SLOT}}}": [50e9] * 20,
    }
    delivered = {
        f"rowtide_subscription_retention_margin_seconds{{{SUBSCRIBED}}}": [3600] * 20,
        f"rowtide_subscription_undelivered_commands{{{SUBSCRIBED}}}": [0] * 20,
    }
    down = {
        'rowtide_up{database="shop"}': [0] * 20,
        'rowtide_health_state{database="shop", area="database", subject="database"}': [2] * 20,
    }
    require_courses(
        tmp_path,
        Course("RowtideWalGrowing", limited, {19: False}),
        Course("RowtideSubscriptionRetentionMargin", delivered, {19: False}),
        Course("RowtideDown", down, {19: True}),
        Course("RowtideHealthFailing", down, {19: False}),
    )
