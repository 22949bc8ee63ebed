"""With `--by-requests` no device synchronises over a connection."""

from __future__ import annotations

import re
from pathlib import Path

import rowtide
from fixtures.merged import CALLERS
from rowtide.merge.publishing.schema_following import synchronise_following

ROOTS = (Path(rowtide.__file__).parents[1], Path(__file__).parents[2])


def test_all_callers_synchronise_by_requests() -> None:
    imported = re.compile(rf"^from .* import .*\b{synchronise_following.__name__}\b", re.MULTILINE)
    calling = {
        ".".join(path.relative_to(root).with_suffix("").parts)
        for root in ROOTS
        for path in root.rglob("*.py")
        if imported.search(path.read_text())
    }
    assert calling - {__name__, "unit.tests.test_by_requests"} == set(CALLERS)
