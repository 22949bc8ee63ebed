"""What is asked of named consumers, as commands and methods take it. Light."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY
from typing import Annotated

from rowtide.core.options import MOST_HOURS, Argument, Option
from rowtide.core.values import frozen

LIMIT_HOURS = 168
AT_RISK = 4
"""A consumer with less than this part of its limit left is at risk."""


ConsumerName = Annotated[str, Argument(metavar="NAME", help="a consumer")]
_LIMIT = Option(help="How long cleanup waits for what it has not acknowledged.", max=MOST_HOURS)


@frozen
class NewConsumer:
    """A consumer as it is added."""

    name: ConsumerName
    instances: Annotated[Sequence[str], Option(help="The capture instances that it reads, separated by commas.")]
    _: KW_ONLY
    limit_hours: Annotated[int, _LIMIT] = LIMIT_HOURS
    role_name: Annotated[str | None, Option("--role", help="Its members may acknowledge, besides the owner.")] = None


@frozen
class ConsumerChange:
    """What is to change of a consumer; None stays."""

    name: ConsumerName
    _: KW_ONLY
    instances: Annotated[
        Sequence[str] | None, Option(help="All the instances that it reads from now on, separated by commas.")
    ] = None
    limit_hours: Annotated[int | None, _LIMIT] = None
