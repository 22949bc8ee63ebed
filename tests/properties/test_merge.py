"""Whatever is done at a hub and three files, all come to the same rows, or to those of their partitions."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from builders.merge_machines import Merging, MergingPartitions, open_files

SOAK = [pytest.mark.soak, pytest.mark.timeout(7200)]
EXAMPLES = [25, pytest.param(1500, marks=SOAK)]
OPTIONS: dict[str, dict[str, Any]] = {"rows": {}, "columns": {"column_tracking": True}}


@pytest.mark.parametrize("examples", EXAMPLES)
@pytest.mark.parametrize("tracking", OPTIONS)
@pytest.mark.parametrize("machine", [Merging, MergingPartitions])
def test_all_nodes_come_to_rest(machine: type[RuleBasedStateMachine], tracking: str, examples: int) -> None:
    chosen = type(machine.__name__, (machine,), {"opening": staticmethod(open_files), "options": OPTIONS[tracking]})
    run_state_machine_as_test(
        chosen,
        settings=settings(
            max_examples=examples, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
