"""Options of the Spark source, as users write them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final, Literal

from rowtide.cdc.instances import ROW_FILTERS
from rowtide.cdc.queries.net_changes import NET_ROW_FILTERS
from rowtide.cdc.queries.windows import Bound, choose_option
from rowtide.cdc.spark_source.errors import SourceOptionInvalid
from rowtide.core.lsn import CommitLsn
from rowtide.core.values import frozen
from rowtide.storage.places import absolute_lake

LATEST: Final = "latest"
"""A stream begins behind what is published when it is started first."""

_NAMES = (
    "path",
    "instance",
    "instances",
    "startingLsn",
    "startingTime",
    "endingLsn",
    "endingTime",
    "rowFilterOption",
    "changes",
    "maxTransactionsPerTrigger",
)
_ALL, _NET = "all", "net"


@frozen
class SourceOptions:
    """What is read: `start` and `end` are None where the option is omitted.

    With `are_several` rows name their instance, however many there are.
    """

    lake: str
    instances: tuple[str, ...]
    are_several: bool = False
    start: Bound | Literal["latest"] | None = None
    end: Bound | None = None
    row_filter_option: str = "all"
    is_net: bool = False
    max_transactions: int | None = None

    @property
    def operations(self) -> tuple[int, ...]:
        """The operations that all changes are to have."""
        return ROW_FILTERS[self.row_filter_option]

    def require_streamable(self) -> None:
        """Raise `SourceOptionInvalid` for an option that only batches have."""
        if self.is_net:
            raise SourceOptionInvalid("changes", "is net in a stream", "Reduce each batch in foreachBatch instead")
        if isinstance(self.end, datetime):
            raise SourceOptionInvalid("endingTime", "is given to a stream", "Use endingLsn")

    def require_batch(self) -> None:
        """Raise `SourceOptionInvalid` for an option that only streams have."""
        if self.max_transactions is not None:
            name = "maxTransactionsPerTrigger"
            raise SourceOptionInvalid(name, "is given to a batch", "Use endingLsn, or spark.readStream")
        if self.start == LATEST:
            raise SourceOptionInvalid("startingLsn", "is latest in a batch", "Leave it out, or name an LSN")


def parse_options(given: Mapping[str, str]) -> SourceOptions:
    """Parse options, whose names differ from each other in more than case.

    Raises `SourceOptionInvalid`, `InvalidLsn`, `UnknownRowFilter`, `PlaceUnnamed`, `StorageUrlMalformed`,
    `StorageSchemeUnsupported`.
    """
    by_name = {name.lower(): name for name in _NAMES}
    found: dict[str, str] = {}
    for name, value in given.items():
        if name.lower() not in by_name:
            raise SourceOptionInvalid(name, "is unknown", f"Options are {', '.join(_NAMES)}")
        found[by_name[name.lower()]] = value
    if not found.get("path", "").strip():
        raise SourceOptionInvalid("path", "is missing", "Name the lake: .load(lake)")
    is_net = _parse_changes(found.get("changes", _ALL))
    filters = NET_ROW_FILTERS if is_net else tuple(ROW_FILTERS)
    options = SourceOptions(
        lake=absolute_lake(found["path"]),
        instances=_parse_instances(found),
        are_several="instances" in found,
        start=_parse_bound(found, "starting"),
        end=_parse_end(found),
        row_filter_option=choose_option(found.get("rowFilterOption", "all"), filters),
        is_net=is_net,
        max_transactions=_parse_count(found, "maxTransactionsPerTrigger"),
    )
    if is_net and options.are_several:
        raise SourceOptionInvalid("changes", "is net for several instances", "Read one with the option instance")
    return options


def _parse_instances(found: Mapping[str, str]) -> tuple[str, ...]:
    given = [name for name in ("instance", "instances") if name in found]
    advice = "Name one instance with instance, or several, separated by commas, with instances"
    if len(given) != 1:
        raise SourceOptionInvalid("instance", "is given beside instances" if given else "is missing", advice)
    (option,) = given
    names = [name.strip() for name in found[option].split(",")]
    if not all(names) or (option == "instance" and len(names) > 1):
        raise SourceOptionInvalid(option, f'is "{found[option]}"', advice)
    return tuple(dict.fromkeys(names))


def _parse_changes(text: str) -> bool:
    """Return whether net changes are asked for."""
    chosen = text.strip().lower()
    if chosen not in (_ALL, _NET):
        raise SourceOptionInvalid("changes", f'is "{text}"', f"Use {_ALL} or {_NET}")
    return chosen == _NET


def _parse_bound(found: Mapping[str, str], which: str) -> Bound | Literal["latest"] | None:
    lsn, time = found.get(f"{which}Lsn"), found.get(f"{which}Time")
    if lsn is not None and time is not None:
        raise SourceOptionInvalid(f"{which}Time", f"is given beside {which}Lsn", "Use one of them")
    if lsn is not None:
        return LATEST if lsn.strip().lower() == LATEST else CommitLsn.parse(lsn)
    return _parse_time(f"{which}Time", time) if time is not None else None


def _parse_end(found: Mapping[str, str]) -> Bound | None:
    end = _parse_bound(found, "ending")
    if end == LATEST:
        raise SourceOptionInvalid("endingLsn", "is latest", "Leave it out for everything that is published")
    return end if isinstance(end, (CommitLsn, datetime)) else None


def _parse_time(name: str, text: str) -> datetime:
    try:
        return datetime.fromisoformat(text.strip())
    except ValueError:
        advice = "Write a time as 2026-01-31T08:00:00+01:00, without zone in UTC"
        raise SourceOptionInvalid(name, f'is "{text}"', advice) from None


def _parse_count(found: Mapping[str, str], name: str) -> int | None:
    text = found.get(name)
    if text is None:
        return None
    if not text.strip().isdecimal() or int(text) == 0:
        raise SourceOptionInvalid(name, f'is "{text}"', "Give a number from 1 on")
    return int(text)
