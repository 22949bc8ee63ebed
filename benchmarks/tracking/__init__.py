"""What change tracking costs, and how fast it answers."""

from benchmarks.tracking.workloads import TRACKING

__all__ = ["TRACKING"]
