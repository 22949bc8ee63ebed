"""The requests for snapshots as the runner follows them, and what it reports in them."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, Engine, func

from rowtide.cdc.snapshot_requests import RequestState, SnapshotRequest, list_requests, note
from rowtide.cdc.snapshots.copies import TableCopy
from rowtide.cdc.snapshots.progress import SnapshotProgress
from rowtide.core.failpoints import failpoint
from rowtide.databases.postgres.errors import translated


class RequestReports:
    """Reads and writes requests on one connection, which is opened when it is needed."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._connection: Connection | None = None

    def list_open(self) -> Sequence[SnapshotRequest]:
        """Return the requests that are still to be carried out."""
        with translated():
            return list_requests(self._connect(), only_open=True)

    def note_planned(self, copy: TableCopy) -> None:
        """Note that a copy has begun."""
        self._note(copy, state=RequestState.COPYING.value, began_at=func.now())

    def note_again(self, copy: TableCopy, outcome: str) -> None:
        """Note that a copy begins again."""
        state = RequestState.REQUESTED.value
        self._note(copy, state=state, outcome=outcome, chunks=0, copied_rows=0, copied_bytes=0)

    def note_progress(self, copy: TableCopy, report: SnapshotProgress) -> None:
        """Note how far a copy is, and what it waits for."""
        self._note(copy, **_progress_values(report), outcome=copy.message)

    def finish(
        self,
        request: SnapshotRequest,
        state: RequestState,
        outcome: str | None = None,
        report: SnapshotProgress | None = None,
    ) -> None:
        """Note that nothing is left to be done for a request."""
        values = _progress_values(report) if report is not None else {}
        values |= {"state": state.value, "outcome": outcome, "finished_at": func.now()}
        failpoint("snapshot_request.before")
        with translated():
            note(self._connect(), request.request_id, **values)
        failpoint("snapshot_request.after")

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _note(self, copy: TableCopy, **values: object) -> None:
        if copy.snapshot is not None:
            definition = copy.snapshot.definition
            values = {
                "snapshot": copy.snapshot.number,
                "of_chunks": definition.of_chunks,
                "estimated_rows": definition.rows,
                "estimated_bytes": definition.size,
                **values,
            }
        with translated():
            note(self._connect(), copy.request.request_id, **values)

    def _connect(self) -> Connection:
        if self._connection is None:
            self._connection = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        return self._connection


def _progress_values(report: SnapshotProgress) -> dict[str, object]:
    return {
        "chunks": report.chunks,
        "copied_rows": report.rows,
        "copied_bytes": report.size,
        "rows_a_second": report.rows_a_second,
    }
