"""Types that the information schema does not describe, or wrongly; the others are compared with it on a server."""

from __future__ import annotations

import pytest

from rowtide.databases.postgres.types.details import TypeDetails, describe_type


@pytest.mark.parametrize("type_text", ["integer[]", "numeric(12,2)[]", "sales.mood", '"Odd (type)"', "int4range"])
def test_of_arrays_and_users_types_only_the_name_is_known(type_text: str) -> None:
    assert describe_type(type_text) == TypeDetails(type_text)


def test_a_scale_may_be_negative() -> None:
    assert describe_type("numeric(3,-2)") == TypeDetails(
        "numeric", numeric_precision=3, numeric_precision_radix=10, numeric_scale=-2
    )
