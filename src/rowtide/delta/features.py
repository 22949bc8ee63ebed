"""Features of Delta's protocol, which a reader or writer of a table has to support."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from typing import Any

from rowtide.delta.replay import Metadata, Protocol
from rowtide.delta.schema import find_unreadable_partitions

COLUMN_MAPPING, TIMESTAMP_NTZ, TYPE_WIDENING = "columnMapping", "timestampNtz", "typeWidening"
WIDENINGS = frozenset({TYPE_WIDENING, "typeWidening-preview"})

_READ = frozenset(
    {
        COLUMN_MAPPING,
        TIMESTAMP_NTZ,
        *WIDENINGS,
        # Files that have a deletion vector are refused; the table feature only says that some may.
        "deletionVectors",
        "vacuumProtocolCheck",
    }
)
_APPENDED_TO = _READ | {
    "appendOnly",
    # The table may have these features, but must not use them: see `find_unappendable`.
    "changeDataFeed",
    "checkConstraints",
    "generatedColumns",
    "identityColumns",
    "invariants",
}
_OF_FILES_ALONE = _APPENDED_TO | {"clustering", "domainMetadata", "rowTracking"}
"""These do not affect a commit without data files."""
_FIRST_READER, _FIRST_WRITER = 1, 2
_LAST_READER, _LAST_WRITER = 3, 7
_MAPPED_READER = 2
_IMPLIED = {
    2: ("appendOnly", "invariants"),
    3: ("checkConstraints",),
    4: ("changeDataFeed", "generatedColumns"),
    5: (COLUMN_MAPPING,),
    6: ("identityColumns",),
}
"""The features that a writer version implies, besides those of lower versions; from version 7 on features are
listed.
"""
_SWITCHES = {
    "delta.enableChangeDataFeed": "a change data feed",
    "delta.enableDeletionVectors": "deletion vectors",
    "delta.enableInCommitTimestamps": "in-commit timestamps",
    "delta.enableRowTracking": "row tracking",
}
_PROPERTIES = {"delta.setTransactionRetentionDuration": "a retention of transaction identifiers"}
_CONSTRAINT = "delta.constraints."
_COLUMN_RULES = {
    "delta.invariants": "an invariant",
    "delta.generationExpression": "a generated column",
    "delta.identity.start": "an identity column",
    "CURRENT_DEFAULT": "a column with a default",
}


def find_unreadable(protocol: Protocol, metadata: Metadata) -> Iterator[str]:
    """Yield the reasons why a table cannot be read here."""
    if protocol.min_reader > _LAST_READER:
        yield f"reader version {protocol.min_reader}"
    for name in sorted(protocol.reader_features - _READ):
        yield f"feature {name}"
    yield from find_unreadable_partitions(metadata)


def find_unappendable(protocol: Protocol, metadata: Metadata, domains: Mapping[str, Any]) -> Iterator[str]:
    """Yield the reasons why a readable table cannot be appended to."""
    yield from _find_unwritable(protocol, _APPENDED_TO)
    for name, said in _SWITCHES.items():
        if metadata.properties.get(name, "false").lower() == "true":
            yield f"{said} ({name})"
    for name, said in _PROPERTIES.items():
        if name in metadata.properties:
            yield f"{said} ({name})"
    for name in metadata.properties:
        if name.startswith(_CONSTRAINT):
            yield f"the check constraint {name.removeprefix(_CONSTRAINT)}"
    for name, said in _COLUMN_RULES.items():
        if f'"{name}"' in metadata.schema_text:
            yield said
    for name in domains:
        yield f"metadata of domain {name}"


def find_unnameable(protocol: Protocol) -> Iterator[str]:
    """Yield the reasons why a commit that only changes the protocol is impossible."""
    yield from _find_unwritable(protocol, _OF_FILES_ALONE)


def _find_unwritable(protocol: Protocol, honoured: Set[str]) -> Iterator[str]:
    if protocol.min_writer > _LAST_WRITER:
        yield f"writer version {protocol.min_writer}"
    for name in sorted(protocol.writer_features - honoured):
        yield f"feature {name}"


def with_features(protocol: Protocol, wanted: Set[str]) -> Protocol:
    """Return the lowest protocol with further features for readers and writers.

    Column mapping is always listed as a reader feature, though reader version 2 implies it: delta-rs reads a table of
    that version with nulls in place of all values, but refuses one that lists the feature.
    """
    has = protocol.writer_features | _implied_by(protocol)
    if wanted <= has and not (COLUMN_MAPPING in wanted and protocol.min_reader == _MAPPED_READER):
        return protocol
    mapped = {COLUMN_MAPPING} if protocol.min_reader == _MAPPED_READER else frozenset[str]()
    return Protocol(_LAST_READER, _LAST_WRITER, protocol.reader_features | mapped | wanted, has | wanted)


def without_features(protocol: Protocol, unwanted: Set[str]) -> Protocol:
    """Return the lowest protocol without some of a protocol's features; version numbers are used where they suffice."""
    if unwanted.isdisjoint(protocol.writer_features):
        return protocol
    readers, writers = protocol.reader_features - unwanted, protocol.writer_features - unwanted
    if readers:
        return Protocol(_LAST_READER, _LAST_WRITER, readers, writers)
    of_versions = (Protocol(_FIRST_READER, version) for version in range(_FIRST_WRITER, _LAST_WRITER))
    same = next((one for one in of_versions if _implied_by(one) == writers), None)
    return same or Protocol(_FIRST_READER, _LAST_WRITER, frozenset(), writers)


def _implied_by(protocol: Protocol) -> frozenset[str]:
    if protocol.min_writer >= _LAST_WRITER:
        return frozenset()
    return frozenset(name for version, names in _IMPLIED.items() if version <= protocol.min_writer for name in names)
