"""The tables of instances in the lake, as instances begin, as their columns get other types, and as they end."""

from __future__ import annotations

from collections.abc import Callable

from rowtide.cdc.capture.lifetimes import InstanceLifetime
from rowtide.cdc.capture.planning import CyclePlan
from rowtide.cdc.ddl import retyping
from rowtide.cdc.ddl.retyping import WidenedTable
from rowtide.cdc.instances import Instance
from rowtide.cdc.lake_lease import LakeLease
from rowtide.cdc.published import DISABLED, SUSPENDED, base_table_path, change_table_path
from rowtide.cdc.rows.change_columns import change_columns
from rowtide.cdc.system_tables import LakeState, SystemTables
from rowtide.core.tables import Widened
from rowtide.core.values import frozen
from rowtide.delta.errors import LakeReadFailed, LakeWriteFailed, TableUnreadable, TableUnwritable
from rowtide.events.catalogue import DisabledRowsStay
from rowtide.events.emission import emit
from rowtide.lake import tables


@frozen
class Widening:
    """What is done with tables whose columns get wider types.

    `find_setting` returns an instance's setting, by its member id; `on_widened` is called before a table gets them.
    """

    find_setting: Callable[[str], Widened]
    on_widened: Callable[[WidenedTable], None]


AS_FITS = Widening(lambda _member_id: Widened.AUTO, lambda _table: None)


class InstanceTables:
    """The change tables and base tables of instances."""

    def __init__(self, system_tables: SystemTables, lease: LakeLease, widening: Widening) -> None:
        self._lake = system_tables.lake
        # It remembers the tables' last versions: what is committed here past it, it has to read again.
        self._committer = system_tables.committer
        self._lease = lease
        self._widening = widening

    def require_fit(self, plan: CyclePlan) -> None:
        """Verify that the change tables can have the types that a plan gives them."""
        for altered in plan.altered:
            retyping.require_fit(self._lake, altered.lifetime.instance)

    def carry_types(self, plan: CyclePlan) -> None:
        """Give the change tables the types that their columns have in the source from this cycle on."""
        for altered in plan.altered:
            instance = altered.lifetime.instance
            retyping.carry_types(
                self._lake,
                instance,
                widened=self._widening.find_setting(instance.member_id),
                before_commit=self._lease.require,
                on_widened=self._widening.on_widened,
            )
            self._committer.forget(change_table_path(self._lake, instance.capture_instance))

    def ensure(self, plan: CyclePlan, lake_state: LakeState) -> None:
        """Make the change tables of the instances that a plan begins."""
        for lifetime in plan.begun:
            # One that ends in the same cycle has no rows; its name may be the next one's, whose table is not touched
            # again when a cycle is redone: it would be emptied, and the rows refused as there already.
            if lifetime.end is None:
                self._ensure_change_table(lifetime, lake_state)

    def _ensure_change_table(self, lifetime: InstanceLifetime, lake_state: LakeState) -> None:
        columns = [(column.name, column.type_name) for column in change_columns(lifetime.instance)]
        path = change_table_path(self._lake, lifetime.instance.capture_instance)
        # The table may be another instance's by now: one that was enabled while this process stood still.
        identity = lifetime.instance.member_id
        tables.ensure_table(path, columns, identity=identity, before_commit=self._lease.require)
        before = lake_state.instances.get(lifetime.instance.capture_instance)
        if before is not None and before.state == SUSPENDED:
            # Its types may have changed in the gap; its rows from before are shown to no reader.
            retyping.require_types(self._lake, lifetime.instance, self._lease.require)
        self._committer.forget(path)

    def retire_ended(self, plan: CyclePlan) -> None:
        """Remove the rows of the instances that a plan disables, once no reader is shown them."""
        for lifetime in plan.ended:
            if lifetime.end is not None:
                self._retire(lifetime.instance)

    def retire_disabled(self, lake_state: LakeState) -> None:
        """Remove the rows that a crash left between the end of an instance and their removal."""
        for recorded in lake_state.instances.values():
            if recorded.state == DISABLED:
                self._retire(recorded.instance)

    def _retire(self, instance: Instance) -> None:
        """Remove the rows of a disabled instance. A damaged table does not keep others from being captured: `health`
        names it, and the next start tries again.
        """
        for path_of in (change_table_path, base_table_path):
            path = path_of(self._lake, instance.capture_instance)
            try:
                tables.retire_table(path, identity=instance.member_id)
            except (LakeReadFailed, LakeWriteFailed, TableUnreadable, TableUnwritable) as error:
                emit(DisabledRowsStay(error))
            self._committer.forget(path)
