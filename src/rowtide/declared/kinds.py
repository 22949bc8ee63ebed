"""The kinds of objects that a file declares: their tables in it, keys, and which keys can be changed. Pure.

The keys are the options of the methods that add such objects; those of the methods that change them can be changed in
place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, field, fields
from functools import cache
from typing import Annotated, Any, get_type_hints

from rowtide.cdc.jobs.definitions import DEFAULTS, JobChange, NewJob
from rowtide.cdc.requests import ConsumerChange, DatabaseToEnable, NewConsumer, NewInstance, TablesToEnable
from rowtide.core.options import Option
from rowtide.core.tables import Widened
from rowtide.core.values import frozen
from rowtide.declared.values import DeclaredType, Plain, find_type
from rowtide.merge.articles import JoinFilter, Partition
from rowtide.merge.publishing import requests
from rowtide.merge.publishing.exchange_requests import PartitionChange
from rowtide.replication import subscription_settings
from rowtide.replication.articles.requests import ArticleChange, NewArticle, NewPublication, PublicationThresholds
from rowtide.targets.options import NewTarget
from rowtide.tracking.options import TrackingRequest


@frozen
class ArticleScript:
    """The script to run at subscribers after each schema change of a table, as `register_custom_scripting` takes it."""

    script: Annotated[str | None, Option(help="SQL that runs at subscribers after each schema change.")] = None
    script_name: Annotated[str, Option(help="What the SQL is known by.")] = "SQL"
    script_python: Annotated[str | None, Option(help="Instead of SQL, module:function that returns it.")] = None


@frozen
class DistributionRetention:
    """How long undelivered changes are kept, as `change_distribution` takes it."""

    max_retention_hours: Annotated[int, Option(help="Hours that undelivered changes are kept.", min=1)] = (
        subscription_settings.MAX_RETENTION_HOURS
    )


@frozen
class JobPresence:
    """Whether a job that the first enabled table creates was dropped."""

    is_dropped: Annotated[bool, Option(help="It is not there; it comes back where this is no longer declared.")] = False


@frozen
class ExplicitPartitions:
    """The partitions that are there without a subscription, as `add_partition` takes them."""

    partitions: Annotated[
        tuple[Partition, ...],
        Option(help="Partitions that are there before their first subscription: host_name=NAME&login=NAME, or one."),
    ] = ()


NAME = "*"
"""Stands in a path for the name of an object."""


@frozen
class DeclaredKey:
    """A key of a kind of objects; `default` is as TOML has it, None without one."""

    name: str
    type: DeclaredType
    default: Plain | None
    is_required: bool


@frozen(kw_only=True)
class Kind:
    """A kind of objects.

    `path` leads to it in a file. `named_by` are the options that the names in the path are. `once` are the options that
    count when an object is added, and are not compared. `defaults` are those of options that are None by default.
    `fixed`: the object is never made again; by option, what to do instead where the option is to be another. `loses` is
    what making an object again loses, and `drops` what dropping it does. A part is added to the object that contains
    it, and goes with that alone.
    """

    name: str
    path: tuple[str, ...]
    options: tuple[Any, ...]
    named_by: tuple[str, ...] = ()
    only: frozenset[str] | None = None
    left_out: frozenset[str] = frozenset()
    once: frozenset[str] = frozenset()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    unordered: frozenset[str] = frozenset()
    changes: tuple[Any, ...] = ()
    also_changed: frozenset[str] = frozenset()
    clearable: frozenset[str] = frozenset()
    fixed: Mapping[str, str] = field(default_factory=dict)
    references: Mapping[str, str] = field(default_factory=dict)
    """By option, the kind of the objects whose names it has."""
    is_table: bool = False
    """Whether its own name is a table's."""
    is_text: bool = False
    """Whether its own name is that of a view, function or procedure."""
    is_url: bool = False
    """Whether its own name is a subscriber's URL."""
    table_key: str | None = None
    places: frozenset[str] = frozenset()
    urls: frozenset[str] = frozenset()
    is_part: bool = False
    is_kept: bool = False
    """Whether it is there anyway: it is never dropped."""
    named_defaults: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The only names that objects may have, if there are any, with defaults of their own."""
    loses: str = ""
    drops: str = ""
    starts: str = ""

    @property
    def depth(self) -> int:
        """The number of its names: its containers', then its own."""
        return self.path.count(NAME)

    @property
    def container(self) -> Kind | None:
        """The kind of the objects that contain it."""
        return next((one for one in KINDS if self.depth > 1 and one.path == self.path[:-2]), None)

    @property
    def changeable(self) -> frozenset[str]:
        """The options that can be changed in place."""
        found = {one.name for options in self.changes for one in fields(options)}
        return frozenset(found | self.also_changed) & self.keys.keys()

    def default_of(self, names: Sequence[str], option: str) -> Plain | None:
        """Return the default of an object's option, as TOML has it."""
        own: Mapping[str, Plain] = self.named_defaults.get(names[-1], {}) if names else {}
        return own.get(option, self.keys[option].default)

    @property
    def keys(self) -> Mapping[str, DeclaredKey]:
        """Its keys, by name, in the order of the options."""
        return _find_keys(self.name)


@cache
def _find_keys(name: str) -> Mapping[str, DeclaredKey]:
    kind = BY_NAME[name]
    found: dict[str, DeclaredKey] = {}
    for options in kind.options:
        hints = get_type_hints(options, include_extras=True)
        for one in fields(options):
            excluded = one.name in kind.left_out or one.name in kind.named_by or one.name in found
            value_type = None if excluded else find_type(hints[one.name])
            if value_type is not None and (kind.only is None or one.name in kind.only):
                found[one.name] = _as_key(kind, one, value_type)
    return found


def _as_key(kind: Kind, option: Any, value_type: DeclaredType) -> DeclaredKey:
    has_default = option.default is not MISSING or option.default_factory is not MISSING
    default = option.default if option.default is not MISSING else None
    if default is None and option.default_factory is not MISSING:
        default = option.default_factory()
    chosen = kind.defaults.get(option.name) if default is None else default
    plain = None if chosen is None else value_type.write(chosen)
    is_required = not has_default and option.name not in kind.defaults and option.name not in kind.once
    return DeclaredKey(option.name, value_type, plain, is_required)


_SETTINGS = subscription_settings.SubscriptionSettings()
_DELIVERY = frozenset(one.name for one in fields(subscription_settings.DeliveryOptions))
_CHANGED_BY_SETTINGS = _DELIVERY & {one.name for one in fields(subscription_settings.SubscriptionSettings)}

CAPTURE = Kind(
    name="capture",
    path=("cdc",),
    options=(DatabaseToEnable,),
    once=frozenset({"for_group"}),
    defaults={"widened": Widened.AUTO},
    also_changed=frozenset({"widened"}),
    places=frozenset({"lake", "log_store"}),
    fixed={
        "lake": "a lake is moved with `rowtide lake copy FROM TO --switch`",
        "log_store": "a log store is moved with `rowtide lake copy FROM TO --switch`",
    },
    drops="the log store, slot and publication, and all change rows of the lake",
    starts="capture begins with changes that commit from now on",
)
INSTANCE = Kind(
    name="instance",
    path=("cdc", "instances", NAME),
    options=(NewInstance,),
    named_by=("capture_instance",),
    once=frozenset({"snapshot", "rows_per_second"}),
    unordered=frozenset({"columns"}),
    table_key="table",
    loses="its change rows and its copy of the table in the lake",
    drops="its change rows and its copy of the table in the lake",
    starts="change rows from before are not restored",
)
RULE = Kind(
    name="rule",
    path=("cdc", "rules", NAME),
    options=(TablesToEnable,),
    named_by=("patterns",),
    left_out=frozenset({"with_new_tables", "wait_s", "widened"}),
    unordered=frozenset({"excluding"}),
    changes=(TablesToEnable,),
    clearable=frozenset(one.name for one in fields(TablesToEnable)),
    drops="nothing: the tables that it has enabled stay so",
    starts="present tables that match are enabled too",
)
CONSUMER = Kind(
    name="consumer",
    path=("cdc", "consumers", NAME),
    options=(NewConsumer,),
    named_by=("name",),
    unordered=frozenset({"instances"}),
    changes=(ConsumerChange,),
    references={"instances": "instance"},
    loses="its acknowledged LSN",
    drops="its acknowledged LSN",
    starts="its acknowledged LSN is not restored: it begins at the low endpoints",
)
TARGET = Kind(
    name="target",
    path=("cdc", "targets", NAME),
    options=(NewTarget,),
    named_by=("name",),
    unordered=frozenset({"instances"}),
    references={"instances": "instance"},
    places=frozenset({"path"}),
    loses="what its tables have of their source: they are made again",
    drops="its position; its tables stay as they are",
    starts="its position is not restored: its tables are made from their beginning",
)
JOB = Kind(
    name="job",
    path=("cdc", "jobs", NAME),
    options=(NewJob, JobPresence),
    named_by=("job_type",),
    left_out=frozenset({"sql_server_defaults"}),
    changes=(JobChange,),
    also_changed=frozenset({"is_dropped"}),
    is_kept=True,
    named_defaults={
        job_type.value: {name: value for name, value in asdict(parameters).items() if value is not None}
        for job_type, parameters in DEFAULTS.items()
    },
    loses="a run that is under way, which ends",
)
DISTRIBUTION = Kind(
    name="distribution",
    path=("replication",),
    options=(NewPublication, DistributionRetention),
    only=frozenset({"lake", "log_store", "distribution_db", "for_group", "max_retention_hours"}),
    once=frozenset({"for_group"}),
    also_changed=frozenset({"distribution_db", "max_retention_hours"}),
    places=frozenset({"lake", "log_store"}),
    urls=frozenset({"distribution_db"}),
    fixed={
        "lake": "the log's folder is that of the first publication",
        "log_store": "a log store is moved with `rowtide lake copy FROM TO --switch`",
    },
    is_kept=True,
)
PUBLICATION = Kind(
    name="publication",
    path=("replication", "publications", NAME),
    options=(NewPublication, PublicationThresholds),
    named_by=("name",),
    left_out=frozenset({"lake", "log_store", "distribution_db", "for_group", "publication"}),
    changes=(PublicationThresholds,),
    clearable=frozenset({"latency_threshold_s", "expiration_threshold"}),
    loses="its articles and subscriptions, which are added again",
    drops="what is not delivered yet",
)
ARTICLE = Kind(
    name="article",
    path=("replication", "publications", NAME, "articles", NAME),
    options=(NewArticle, ArticleScript),
    named_by=("publication", "table"),
    left_out=frozenset({"commands"}),
    once=frozenset({"if_exists"}),
    unordered=frozenset({"columns"}),
    defaults={"insert_command": "CALL", "update_command": "SCALL", "delete_command": "CALL"},
    changes=(ArticleChange, ArticleScript),
    also_changed=frozenset({"columns"}),
    clearable=frozenset({"where", "script", "script_python"}),
    is_table=True,
    loses="what is not delivered of it yet; subscribers copy the table again",
    drops="what is not delivered of it yet; subscribers keep their rows",
    starts="subscribers copy the table",
)
SCHEMA_ARTICLE = Kind(
    name="schema article",
    path=("replication", "publications", NAME, "schema_articles", NAME),
    options=(),
    named_by=("publication", "object"),
    is_text=True,
    drops="nothing: subscribers keep the object",
    starts="subscribers get the object as it is",
)
SUBSCRIPTION = Kind(
    name="subscription",
    path=("replication", "publications", NAME, "subscriptions", NAME),
    options=(subscription_settings.RequestedSubscription,),
    named_by=("publication", "subscriber"),
    once=frozenset({"sync_type", "lsn", "if_exists", "chunk_bytes"}),
    defaults={
        "streams": _SETTINGS.streams,
        "skip_errors": _SETTINGS.skip_errors,
        "run_as": _SETTINGS.run_as,
        "forward": False,
    },
    also_changed=_CHANGED_BY_SETTINGS,
    clearable=_CHANGED_BY_SETTINGS,
    is_url=True,
    loses="its position: its tables are copied again",
    drops="its position; the subscriber's tables stay as they are",
    starts="its position is not restored: its tables are copied",
)
MERGE_PUBLICATION = Kind(
    name="merge publication",
    path=("merge", "publications", NAME),
    options=(requests.NewMergePublication, ExplicitPartitions),
    named_by=("name",),
    changes=(requests.MergePublicationChanges, ExplicitPartitions),
    loses="its articles and subscriptions, which are added again, and kept conflicts",
    drops="the versions of its rows and kept conflicts; rows stay",
)
MERGE_ARTICLE = Kind(
    name="merge article",
    path=("merge", "publications", NAME, "articles", NAME),
    options=(requests.NewMergeArticle,),
    named_by=("publication", "table"),
    unordered=frozenset({"columns"}),
    changes=(requests.MergeArticleChanges,),
    is_table=True,
    loses="the versions of its rows and kept conflicts",
    drops="the versions of its rows and kept conflicts; rows stay",
)
MERGE_FILTER = Kind(
    name="merge filter",
    path=("merge", "publications", NAME, "articles", NAME, "filters", NAME),
    options=(JoinFilter,),
    named_by=("publication", "child", "parent"),
    also_changed=frozenset({"condition"}),
    is_table=True,
    is_part=True,
)
MERGE_SUBSCRIPTION = Kind(
    name="merge subscription",
    path=("merge", "publications", NAME, "subscriptions", NAME),
    options=(requests.NewMergeSubscription, requests.ExistingSubscription),
    named_by=("publication", "subscriber"),
    left_out=frozenset({"partition"}),
    once=frozenset({"snapshot", "existing", "absent_is_delete", "run_as"}),
    changes=(PartitionChange,),
    is_url=True,
    loses="what the subscriber changed and has not uploaded, unless `existing` says that it is kept",
    drops="what the subscriber changed and has not uploaded; its rows stay",
    starts="the subscriber gets its rows again",
)
TRACKED_TABLE = Kind(
    name="tracked table",
    path=("tracking", "tables", NAME),
    options=(TrackingRequest,),
    named_by=("table",),
    is_table=True,
    loses="its anchors and tombstones: clients read the whole table again",
    drops="its anchors and tombstones",
    starts="anchors from before are not restored: clients read the whole table",
)
KINDS = (
    CAPTURE,
    INSTANCE,
    RULE,
    CONSUMER,
    TARGET,
    JOB,
    DISTRIBUTION,
    PUBLICATION,
    ARTICLE,
    SCHEMA_ARTICLE,
    SUBSCRIPTION,
    MERGE_PUBLICATION,
    MERGE_ARTICLE,
    MERGE_FILTER,
    MERGE_SUBSCRIPTION,
    TRACKED_TABLE,
)
"""In the order in which objects are added; they are dropped in the opposite order."""
BY_NAME: Mapping[str, Kind] = {kind.name: kind for kind in KINDS}
