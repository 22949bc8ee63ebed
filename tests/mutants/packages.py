"""The packages whose tests are tried by mutants, and the tests that each mutant is tried by."""

from __future__ import annotations

from dataclasses import dataclass

WITHOUT_SERVERS = "not live and not spark and not soak"
WITHOUT_SPARK = "not spark and not soak"
EVERY = "not soak"
"""What a survivor is tried by."""


@dataclass(frozen=True, slots=True)
class TriedPackage:
    """Folders of `src/rowtide`, and paths below `tests`: first the quick ones, then all that a survivor is tried by."""

    sources: tuple[str, ...]
    quick: tuple[str, ...]
    every: tuple[str, ...]
    marks: str = WITHOUT_SERVERS


PACKAGES = {
    "log-store": TriedPackage(
        ("log/store",),
        ("unit/log/store", "integration/log", "conformance/storage", "properties/log"),
        ("unit/log", "integration/log", "conformance/storage", "properties/log", "live/log", "scenarios/log"),
    ),
    "merge-session": TriedPackage(
        ("merge/session",),
        ("unit/merge", "conformance/merge", "conformance/gateway"),
        ("unit/merge", "conformance/merge", "properties/merge", "live/merge", "scenarios/merge"),
    ),
    "delivery": TriedPackage(
        ("replication/distribution", "replication/targets"),
        ("unit/replication", "integration/replication", "live/replication"),
        (
            "unit/replication",
            "integration/replication",
            "properties/replication",
            "live/replication",
            "scenarios/replication",
        ),
        WITHOUT_SPARK,
    ),
}
