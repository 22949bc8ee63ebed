"""Sessions of one application, each with its settings; and Spark's end, told from Spark's errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from py4j.protocol import Py4JError

from rowtide.lake.session import for_reading, pinned, spark_watched

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize("error", [Py4JError("of a call"), FileNotFoundError("of a file")])
def test_an_error_of_a_spark_that_lives_stays_what_it_is(spark: SparkSession, error: Exception) -> None:
    with pytest.raises(type(error), match="of a"), spark_watched():
        raise error


def test_a_session_that_reads_shuffles_for_all_cores_and_no_less_than_its_user_wants(spark: SparkSession) -> None:
    def partitions(session: SparkSession) -> int:
        return int(str(session.conf.get("spark.sql.shuffle.partitions")))

    given, cores = spark.newSession(), spark.sparkContext.defaultParallelism
    for wanted in (1, 4 * cores, 1000):
        given.conf.set("spark.sql.shuffle.partitions", str(wanted))
        assert (partitions(for_reading(given)), partitions(pinned(given))) == (max(wanted, 4 * cores), 2)
        assert partitions(given) == wanted
