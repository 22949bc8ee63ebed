"""Mutants that do what the code does: no test can notice them."""

from __future__ import annotations

EQUIVALENT: dict[tuple[str, str, str, str], str] = {
    (
        "log/store/replay.py",
        "_append_range",
        "_later(state.as_of, entry.as_of)",
        "_later(entry.as_of, state.as_of)",
    ): "the later of two times, in either order",
    (
        "log/store/replay.py",
        "_advance_reader",
        "_later(known.as_of, entry.as_of)",
        "_later(entry.as_of, known.as_of)",
    ): "the later of two times, in either order",
    (
        "log/store/checkpoints.py",
        "Checkpoints.write_due",
        "oldest + 1",
        "(oldest - 1)",
    ): "entries up to the oldest checkpoint are deleted already, and what is gone may be deleted again",
    (
        "merge/session/upload_parts.py",
        "_digests_of",
        "change.row is None",
        "change.row is not None",
    ): "the two signs change places in each digest, and a row and its delete still differ",
    ("merge/session/upload_parts.py", "_joined", "4", "5"): "a longer length before each part still tells parts apart",
    (
        "replication/targets/compared_rows.py",
        "bucket_of",
        "division.buckets > 1",
        "division.buckets >= 1",
    ): "any hash modulo one bucket is 0",
    ("replication/distribution/calls/runs.py", "_combine", "unite(old, new)", "unite(new, old)"): "a union of bits",
    ("replication/distribution/calls/encoding.py", "filtered", "0", "1"): "nothing is chosen: no rows from any place",
    ("replication/distribution/run_context.py", "BatchCounts.__init__", "1", "2"): "no LSN is negative",
    (
        "replication/distribution/calls/from_log.py",
        "LogCalls.read",
        "0",
        "1",
    ): "the first row change of a transaction has the number 1",
    (
        "replication/distribution/reader_entry.py",
        "ReaderEntry.is_due",
        "time.monotonic() >= self._next_advance",
        "time.monotonic() > self._next_advance",
    ): "at the very tick of the clock; the next time it is due in any case",
    (
        "merge/session/upload_parts.py",
        "_digests_of",
        "versions[key] = shared",
        "pass",
    ): "what changes of a version share is put together again for each",
    (
        "merge/session/record_groups.py",
        "_Groups.of",
        "self._above[each] = member",
        "pass",
    ): "the paths of disjoint sets are not shortened: the sets are the same",
    (
        "merge/session/hub/hub_receiver.py",
        "HubReceiver._keep_lost",
        "self.cascades is None or not judged.lost",
        "(self.cascades is None and (not judged.lost))",
    ): "without cascades nothing is lost, and of nothing no row is kept",
    (
        "merge/session/hub/records.py",
        "HubRecords.reject",
        "self.read_known(kind, [place for record, _ in waiting if record.kind is kind for place in _indexes(record)])",
        "pass",
    ): "versions are read ahead for all records, else for each",
    (
        "log/store/location.py",
        "LocalStore.__init__",
        "not folder.is_dir()",
        "not (not folder.is_dir())",
    ): "the test of writing makes the folder, too; only a power failure would show that its parent was not synced",
    (
        "log/store/manifest.py",
        "Manifest.load",
        "self._known_at = -math.inf",
        "pass",
    ): "looking for a checkpoint sets it",
    (
        "log/store/checkpoints.py",
        "Checkpoints._last_deletable",
        "0",
        "1",
    ): "without a checkpoint of that age nothing is deleted, but for a first entry that is then written again",
    (
        "log/store/checkpoints.py",
        "Checkpoints.write_due",
        "number < oldest",
        "number <= oldest",
    ): "the entry of the oldest checkpoint is deleted next in any case",
    (
        "log/store/manifest.py",
        "Manifest.follow",
        "(state.version, known_at) > (self._version(), self._known_at)",
        "(state.version, known_at) >= (self._version(), self._known_at)",
    ): "the state of a version is the same whoever has read it",
    (
        "log/store/segments.py",
        "_encode",
        "False",
        "True",
    ): "a dictionary, or the schema once more: the file is larger, and its rows are the same",
    ("log/store/segments.py", "_encode", "1", "2"): "how hard zstd tries: the rows are the same",
}
"""Path, outermost function, text, replaced text; and why it is the same."""
