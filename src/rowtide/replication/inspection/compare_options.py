"""What is compared, as arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypedDict

OnCompare = Callable[[str, str, int, int], None]


class CompareOptions(TypedDict, total=False):
    """Which articles and subscribers are compared; by default all.

    What delivery keeps from being compared, such as a copy, is tried again for `wait_s` (10), while a process delivers.
    `on_compare` is called before an article is compared, with the subscriber, the article, its number from 1 and the
    number of all.
    """

    article: str | None
    subscriber: str | None
    wait_s: float
    on_compare: OnCompare
