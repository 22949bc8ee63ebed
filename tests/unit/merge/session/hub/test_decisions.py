"""What the hub makes of a subscriber's version where the two are not compared by their lineages alone."""

from __future__ import annotations

from collections.abc import Mapping

from rowtide.merge.session.hub.decisions import instead, uploaded
from rowtide.merge.versions.changes import KnownVersion, Row, RowChange, Write
from rowtide.merge.versions.comparison import (
    Lineage,
    NodeChange,
    Presence,
    RowVersion,
    decode_columns,
    encode_columns,
)

HUB, DEVICE = 1, 9
BEGUN = NodeChange(HUB, 1)
AT_HUB, AT_DEVICE = NodeChange(HUB, 5), NodeChange(DEVICE, 3)
BOTH = Lineage.of([AT_HUB, AT_DEVICE])
Columns = Mapping[int, NodeChange]


def sent(row: Row | None = ("device", "old"), columns: Columns | None = None) -> RowChange:
    encoded = None if columns is None else encode_columns(columns)
    return RowChange("a", Lineage.of([BEGUN, AT_DEVICE]).encode(), AT_DEVICE.encode(), encoded, row)


def known(columns: Columns | None = None) -> KnownVersion:
    return KnownVersion(RowVersion(Presence.LIVE, Lineage.of([AT_HUB]), AT_HUB, columns), None, 50.0, 5)


def versions(write: Write) -> tuple[Lineage, Columns]:
    return Lineage.decode(write.lineage), decode_columns(write.columns or b"")


def test_an_upload_only_row_overrides_the_hubs() -> None:
    write = uploaded(sent(), known(), ("hub", "hub"), DEVICE, 75.0)

    assert (write.row, write.is_live, write.origin, write.priority) == (("device", "old"), True, DEVICE, 75.0)
    assert (write.last, versions(write)) == (AT_DEVICE.encode(), (BOTH, {}))


def test_with_column_tracking_the_hub_keeps_its_other_columns() -> None:
    change, here = sent(columns={0: AT_DEVICE}), known({0: BEGUN, 1: AT_HUB})
    write = uploaded(change, here, ("hub", "hub"), DEVICE, 75.0)

    assert (write.row, write.is_live, write.own_columns, write.priority) == (("device", "hub"), True, frozenset(), 50.0)
    assert versions(write) == (BOTH, {0: AT_DEVICE, 1: AT_HUB})


def test_a_row_that_the_hub_lacks_is_the_devices_whole() -> None:
    write = uploaded(sent(columns={0: AT_DEVICE}), known({1: AT_HUB}), None, DEVICE, None)

    assert (write.row, write.origin, write.priority) == (("device", "old"), DEVICE, None)
    assert versions(write) == (BOTH, {0: AT_DEVICE, 1: AT_HUB})


def test_the_hubs_row_in_place_of_one_includes_both_versions() -> None:
    write = instead(sent(), known(), ("hub", "hub"))
    assert (write.row, write.is_live, write.origin, versions(write)) == (("hub", "hub"), True, None, (BOTH, {}))


def test_columns_with_values_of_neither_are_the_hubs_own() -> None:
    change = sent(("device", "old", "old"), columns={0: AT_DEVICE})
    kept, renewed = (
        instead(change, known({1: AT_HUB}), ("device", "hub", "new"), is_new=is_new) for is_new in (False, True)
    )
    assert (kept.own_columns, renewed.own_columns) == (frozenset({0, 1}), frozenset({0, 1, 2}))


def test_a_change_of_an_unknown_row_is_withdrawn_or_replaced() -> None:
    change = sent(columns={0: AT_DEVICE})
    withdrawn, replaced = (instead(change, None, row) for row in (None, ("hub", "hub")))

    assert (withdrawn.row, withdrawn.is_live, withdrawn.columns) == (None, False, None)
    assert (replaced.row, replaced.is_live, replaced.columns) == (("hub", "hub"), False, change.columns)
    assert withdrawn.lineage == replaced.lineage == change.lineage
