"""Rules as promtool tries them: series of a sample a minute, and what fires when."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rowtide.monitor.provided_files import read_alerts

PROMTOOL = Path(sys.executable).with_name("promtool")
Value = float | str
MISSED = "stale"
"""What Prometheus keeps of a scrape that failed."""
ABSENT = "_"


@dataclass(frozen=True)
class Course:
    """Series with their values, one each minute, and in which minutes an alert fires."""

    alert: str
    series: Mapping[str, Sequence[Value]]
    fires: Mapping[int, bool]


def check_rules(folder: Path) -> None:
    """Let promtool check the file of alerts."""
    _run("check", "rules", write_rules(folder))


def write_rules(folder: Path, *alerts: str) -> Path:
    """Write the alerts, or some of them: promtool evaluates all that it is given in each minute."""
    head, *rules = re.split(r"^(?= +- alert: )", read_alerts(), flags=re.MULTILINE)
    wanted = [rule for rule in rules if not alerts or rule.split(maxsplit=3)[2] in alerts]
    written = folder / f"{'-'.join(alerts) or 'all'}.rules.yml"
    written.write_text("".join([head, *wanted]), encoding="utf-8")
    return written


def require_courses(folder: Path, *courses: Course) -> None:
    """Alerts fire in the minutes in which they should, and in no others of those that are named."""
    _run("test", "rules", *(_write(folder, number, course) for number, course in enumerate(courses)))


def _write(folder: Path, number: int, course: Course) -> Path:
    test = {
        "interval": "1m",
        "input_series": [
            {"series": name, "values": " ".join(map(str, values))} for name, values in course.series.items()
        ],
        "promql_expr_test": [
            {
                "expr": f'count(ALERTS{{alertname="{course.alert}", alertstate="firing"}}) or vector(0)',
                "eval_time": f"{minute}m",
                "exp_samples": [{"labels": "{}", "value": int(fires)}],
            }
            for minute, fires in course.fires.items()
        ],
    }
    rules = str(write_rules(folder, course.alert))
    written = folder / f"{number}.test.yml"
    # What is JSON is YAML too.
    written.write_text(json.dumps({"rule_files": [rules], "evaluation_interval": "1m", "tests": [test]}))
    return written


def _run(*arguments: str | Path) -> None:
    ended = subprocess.run([PROMTOOL, *arguments], capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
