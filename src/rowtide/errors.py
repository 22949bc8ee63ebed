"""Every error that a method or a lake's function raises, to catch it by its class.

`rowtide` itself has the bases: `RowtideError`, and the kinds `NotFound`, `AlreadyExists`, `Invalid`, `Denied`,
`Retryable` and `DataLoss`. What an error says is in `docs/reference/errors.md`, by number.
"""

from __future__ import annotations

from rowtide.actions.errors import *
from rowtide.agents.log_reader_process import *
from rowtide.agents.supervisor import *
from rowtide.catalogs.errors import *
from rowtide.cdc.errors.capturing import *
from rowtide.cdc.errors.enabling import *
from rowtide.cdc.errors.jobs import *
from rowtide.cdc.errors.querying import *
from rowtide.configuration.errors import *
from rowtide.conflicts.errors import *
from rowtide.copying.errors import *
from rowtide.core.addresses import *
from rowtide.core.anchors import *
from rowtide.core.errors import *
from rowtide.core.errors import RowtideError
from rowtide.core.formats import *
from rowtide.core.names import *
from rowtide.core.options import *
from rowtide.databases.passwords import *
from rowtide.databases.postgres.embedded import *
from rowtide.databases.postgres.errors import (
    AdministrationDenied as AdministrationDenied,
    ConnectionFailed as ConnectionFailed,
    GrantMissing as GrantMissing,
    HostNotAllowed as HostNotAllowed,
    LockNotObtained as LockNotObtained,
    NoFreeSender as NoFreeSender,
    NoFreeSlot as NoFreeSlot,
    NoReplicationRight as NoReplicationRight,
    ReplicationPooled as ReplicationPooled,
    RightMissing as RightMissing,
    RowsHidden as RowsHidden,
    SchemaOfOthers as SchemaOfOthers,
    ServerIsStandby as ServerIsStandby,
    ServerOutOfResources as ServerOutOfResources,
    ServerSilent as ServerSilent,
    StatementCancelled as StatementCancelled,
    TableHeld as TableHeld,
    TableNotFound as TableNotFound,
    TextInvalid as TextInvalid,
    TransactionAborted as TransactionAborted,
    TransactionsPooled as TransactionsPooled,
    UnexpectedSqlError as UnexpectedSqlError,
    WalLevelNotLogical as WalLevelNotLogical,
    WritesRefused as WritesRefused,
)
from rowtide.databases.sqlite.errors import *
from rowtide.databases.urls import *
from rowtide.declared.errors import *
from rowtide.delta.errors import *
from rowtide.diagnosis.errors import *
from rowtide.events.configuration import *
from rowtide.gateway.errors import *
from rowtide.lake.errors import *
from rowtide.listening import *
from rowtide.log.errors import *
from rowtide.merge.errors.devices import *
from rowtide.merge.errors.nodes import *
from rowtide.merge.errors.publishing import *
from rowtide.merge.errors.rows import *
from rowtide.merge.errors.subscribing import *
from rowtide.monitor.errors import *
from rowtide.relocation.errors import *
from rowtide.replication.errors.conflicts import *
from rowtide.replication.errors.delivery import *
from rowtide.replication.errors.publishing import *
from rowtide.replication.errors.subscribing import *
from rowtide.rights.errors import *
from rowtide.storage.errors import *
from rowtide.systemd import *
from rowtide.targets.errors import *
from rowtide.tracking.errors import *


def __dir__() -> list[str]:
    return [name for name, value in globals().items() if isinstance(value, type) and issubclass(value, RowtideError)]
