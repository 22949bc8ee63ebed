"""What a lake publishes, without its change rows: the last LSN, the instances, their validity intervals and DDL.

Neither Spark nor a database connection is needed.
"""

from __future__ import annotations

from collections.abc import Mapping

from rowtide.cdc.ddl.history import ListedChange, read_history
from rowtide.cdc.errors.capturing import LakeUnknown
from rowtide.cdc.errors.querying import InstanceUnknown
from rowtide.cdc.published import ENABLED, Publication, RecordedInstance, read_instances, read_visible_publication
from rowtide.core.lsn import CommitLsn
from rowtide.core.values import frozen


@frozen
class ValidityInterval:
    """The LSNs that may be queried of an instance, both inclusive."""

    low: CommitLsn
    high: CommitLsn


class PublishedLake:
    """The system tables of one lake, as readers see them. Calls raise `LakeUnknown`, `LakeReadFailed`."""

    def __init__(self, lake: str) -> None:
        self.lake = lake

    def get_max_lsn(self) -> CommitLsn | None:
        """Return the last published LSN, None before the first (SQL Server: fn_cdc_get_max_lsn)."""
        return self._published().lsn

    def get_min_lsn(self, capture_instance: str) -> CommitLsn:
        """Return an instance's low endpoint (SQL Server: fn_cdc_get_min_lsn). Raises `InstanceUnknown`."""
        return self.get_recorded_instance(capture_instance).lsn

    def list_recorded_instances(self) -> tuple[RecordedInstance, ...]:
        """Return the enabled instances that capture has read, by name."""
        enabled = (recorded for recorded in self.get_published_instances()[1].values() if recorded.state == ENABLED)
        return tuple(sorted(enabled, key=lambda recorded: recorded.instance.capture_instance))

    def get_published_instances(self) -> tuple[Publication, Mapping[str, RecordedInstance]]:
        """Return the last publication, and all instances as of it, by name."""
        published = self._published()
        return published, read_instances(self.lake, published.cycle)

    def get_ddl_history(self, capture_instance: str) -> tuple[ListedChange, ...]:
        """Return the DDL on an instance's table since it was enabled, in log order. Raises `InstanceUnknown`."""
        member_id = self.get_recorded_instance(capture_instance).instance.member_id
        return read_history(self.lake, member_id, self._published().cycle)

    def get_recorded_instance(self, capture_instance: str) -> RecordedInstance:
        """Return one instance. Raises `InstanceUnknown`."""
        return self.read_instance_and_high(capture_instance)[0]

    def get_validity_interval(self, capture_instance: str) -> ValidityInterval:
        """Return the interval that may be queried. Raises `InstanceUnknown`."""
        recorded, high = self.read_instance_and_high(capture_instance)
        return ValidityInterval(recorded.lsn, high)

    def read_instance_and_high(self, capture_instance: str) -> tuple[RecordedInstance, CommitLsn]:
        """Return an instance and the last published LSN, both of one publication."""
        published, instances = self.get_published_instances()
        recorded = instances.get(capture_instance)
        if recorded is None or recorded.state != ENABLED:
            raise InstanceUnknown(capture_instance)
        return recorded, published.lsn if published.lsn is not None else recorded.lsn

    def _published(self) -> Publication:
        published = read_visible_publication(self.lake)
        if published is None:
            raise LakeUnknown(self.lake)
        return published
