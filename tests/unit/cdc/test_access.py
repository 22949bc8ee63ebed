from __future__ import annotations

import pytest

from rowtide.cdc.access import require_role_name
from rowtide.cdc.errors.enabling import RoleNameEmpty, RoleNameInvalid


@pytest.mark.parametrize("name", ["readers", "Übung; drop", "r" * 63])
def test_a_gating_role_may_have_any_name_that_the_server_takes(name: str) -> None:
    require_role_name(name)


@pytest.mark.parametrize("name", ["", "  "])
def test_a_gating_role_has_a_name(name: str) -> None:
    with pytest.raises(RoleNameEmpty, match="RT-22907"):
        require_role_name(name)


@pytest.mark.parametrize("name", ["public", "none", "pg_readers", "ü" * 32, "a\0b"])
def test_names_that_no_role_can_have_are_refused(name: str) -> None:
    with pytest.raises(RoleNameInvalid, match="RT-22938"):
        require_role_name(name)
