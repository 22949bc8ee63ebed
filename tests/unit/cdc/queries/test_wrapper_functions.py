"""The wrapper functions' scripts; what they return is tested where they run."""

from __future__ import annotations

import pytest

from builders.capture.capture_instances import instance, source_table
from rowtide.cdc.errors.querying import WrapperColumnUnknown, WrapperFlagUnknown
from rowtide.cdc.queries.wrapper_functions import WrapperFunction, WrapperRequest, generate_wrappers

TABLE = source_table([("id", "integer"), ("Name", "text"), ("name", "text")])


def generate(*, supports_net_changes: bool = True, **options: bool | tuple[str, ...]) -> list[WrapperFunction]:
    request = WrapperRequest(**options)  # type: ignore[arg-type]
    made = instance(table=TABLE, supports_net_changes=supports_net_changes)
    return list(generate_wrappers(made, request))


def test_an_instance_without_net_changes_has_one_function() -> None:
    assert [one.function_name for one in generate()] == ["fn_all_changes_public_t1", "fn_net_changes_public_t1"]
    assert [one.function_name for one in generate(supports_net_changes=False)] == ["fn_all_changes_public_t1"]


def test_columns_follow_the_list_order_with_their_lake_names() -> None:
    script = generate(column_list=("name", "id"), update_flag_list=("name",))[0].create_script
    assert "`name_2`,\n    `id`,\n" in script
    assert "fn_cdc_is_bit_set(3, `__$update_mask`), null) as `name_2_uflag`" in script
    assert "`Name`" not in script


def test_an_open_high_end_point_leaves_the_end_out() -> None:
    assert "('largest less than or equal', end_time)" in generate()[0].create_script
    assert "('largest less than', end_time)" in generate(closed_high_end_point=False)[0].create_script


def test_columns_that_are_not_captured_are_refused() -> None:
    with pytest.raises(WrapperColumnUnknown, match="RT-22918: the column list names price"):
        generate(column_list=("id", "price"))
    with pytest.raises(WrapperFlagUnknown, match="RT-22919: the update flag list names price"):
        generate(update_flag_list=("price",))
