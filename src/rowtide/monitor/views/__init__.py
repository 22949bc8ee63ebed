"""The states of databases as pages and metrics show them: views, made of the results of polls. Pure.

`make_view` makes a `DatabaseView` of one snapshot; every page of a database is made of one, and the first page of
`make_overview`. What could not be read is None or missing, never 0. No view has a user, a password, or the values of a
row. Lines of a day are `Ring.list_points` of the series that the views name.
"""

from __future__ import annotations

from rowtide.monitor.views.capture import (
    CaptureView,
    CleanupView,
    ConsumerView,
    FailureView,
    GapView,
    InstanceView,
    IntervalView,
    LogView,
    PlaceView,
    SchemaChangeView,
    SlotView,
    TargetView,
)
from rowtide.monitor.views.database import (
    DatabaseSummary,
    DatabaseView,
    ErrorView,
    JobRunView,
    Overview,
    StateChange,
    TrackedView,
    count_numbers,
    find_changes,
    make_overview,
    make_view,
    summarize,
)
from rowtide.monitor.views.hops import Hop, HopKind
from rowtide.monitor.views.states import MERGE_STATES, CheckView, Judgement, worst_of
from rowtide.monitor.views.subscriptions import (
    SUBSCRIPTION_STATES,
    MergeSubscriptionView,
    MergeView,
    MonitorState,
    PublicationView,
    Quality,
    SubscriptionView,
    count_states,
    list_worst,
)

__all__ = [
    "MERGE_STATES",
    "SUBSCRIPTION_STATES",
    "CaptureView",
    "CheckView",
    "CleanupView",
    "ConsumerView",
    "DatabaseSummary",
    "DatabaseView",
    "ErrorView",
    "FailureView",
    "GapView",
    "Hop",
    "HopKind",
    "InstanceView",
    "IntervalView",
    "JobRunView",
    "Judgement",
    "LogView",
    "MergeSubscriptionView",
    "MergeView",
    "MonitorState",
    "Overview",
    "PlaceView",
    "PublicationView",
    "Quality",
    "SchemaChangeView",
    "SlotView",
    "StateChange",
    "SubscriptionView",
    "TargetView",
    "TrackedView",
    "count_numbers",
    "count_states",
    "find_changes",
    "list_worst",
    "make_overview",
    "make_view",
    "summarize",
    "worst_of",
]
