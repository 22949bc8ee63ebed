"""Options of commands that run tasks of Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from rowtide.core.options import Option
from rowtide.lake.errors import SparkSettingInvalid
from rowtide.lake.spark.arguments import parse_setting
from rowtide.lake.spark.settings import SparkRequest

Master = Annotated[
    str | None,
    Option(
        "--master",
        metavar="URL",
        help="Where Spark runs: spark://host:7077, yarn, k8s://...; default: what Spark is given, or local[*].",
        show_default=False,
    ),
]


def parsed(settings: list[str]) -> list[str]:
    """Refuse what is no setting of Spark's."""
    try:
        for setting in settings:
            parse_setting(setting)
    except SparkSettingInvalid as error:
        raise ValueError(error.filled_fact) from error
    return settings


SparkConf = Annotated[
    list[str],
    Option(
        "--spark-conf",
        metavar="K=V",
        help="A setting of Spark; may be repeated.",
        show_default=False,
        check=parsed,
    ),
]
SharedStorage = Annotated[
    bool,
    Option("--shared-storage", help="Spark's workers have this machine's lake and log store, at the same paths."),
]


def spark_request(master: str | None, conf: Sequence[str], *, shared_storage: bool) -> SparkRequest:
    """Return what the options ask of Spark."""
    return SparkRequest(master, dict(map(parse_setting, conf)), shared_storage)
