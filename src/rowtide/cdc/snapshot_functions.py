"""Snapshots of captured tables, as Python programs use them: a part of `rowtide.connect(url).cdc`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowtide.cdc.job_functions import JobFunctions
from rowtide.cdc.snapshots.requests import RepeatedSnapshot
from rowtide.core.options import takes

if TYPE_CHECKING:
    from rowtide.cdc.snapshots.administration import ListedSnapshot


class SnapshotFunctions(JobFunctions):
    """Snapshots by the name of a capture instance, or of a table: then of all its instances.

    Calls raise `InstanceUnknown`, `NotOwner`, and the errors of `rowtide.cdc.snapshots.errors`.
    """

    @takes(RepeatedSnapshot)
    def resnapshot(self, wanted: RepeatedSnapshot) -> tuple[str, ...]:
        """Request another snapshot, which the process that captures copies; return the instances.

        With `where`, an SQL condition, only such rows are copied, and replace those of the same keys. Raises
        `TableNotFound`, `SnapshotOpen`, `SnapshotNeedsKey`, `SnapshotConditionInvalid`, `SnapshotRateInvalid`.
        """
        from rowtide.cdc.snapshots import administration
        from rowtide.databases.postgres.alterations import Committing

        return administration.resnapshot(
            Committing(self._engine), self._name, wanted.name, wanted.where, wanted.rows_per_second
        )

    def list_snapshots(self) -> tuple[ListedSnapshot, ...]:
        """Return the snapshots that were requested of the present instances, and how far they are."""
        from rowtide.cdc.snapshots.administration import list_snapshots

        return list_snapshots(self._engine, self._name)

    def pause_snapshot(self, name: str) -> tuple[str, ...]:
        """Pause a snapshot that is not finished; without a key it begins again when it is resumed.

        Returns the instances, as the following do. Raises `TableNotFound`, `SnapshotNotOpen`.
        """
        from rowtide.cdc.snapshots.administration import pause

        return pause(self._engine, self._name, name, is_paused=True)

    def resume_snapshot(self, name: str) -> tuple[str, ...]:
        """Go on with a snapshot that was paused. Raises as `pause_snapshot`."""
        from rowtide.cdc.snapshots.administration import pause

        return pause(self._engine, self._name, name, is_paused=False)

    def cancel_snapshot(self, name: str) -> tuple[str, ...]:
        """Cancel a snapshot that is not finished; its rows are removed from the lake. Raises as `pause_snapshot`."""
        from rowtide.cdc.snapshots.administration import cancel

        return cancel(self._engine, self._name, name)

    def limit_snapshot(self, name: str, rows_per_second: int | None) -> tuple[str, ...]:
        """Copy at most so many rows a second from now on; None: no limit.

        Raises as `pause_snapshot`, and `SnapshotRateInvalid`.
        """
        from rowtide.cdc.snapshots.administration import limit

        return limit(self._engine, self._name, name, rows_per_second)
