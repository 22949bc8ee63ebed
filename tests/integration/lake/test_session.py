"""Spark's end is told from Spark's errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from py4j.protocol import Py4JError

from rowtide.lake.session import spark_watched

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize("error", [Py4JError("of a call"), FileNotFoundError("of a file")])
def test_an_error_of_a_spark_that_lives_stays_what_it_is(spark: SparkSession, error: Exception) -> None:
    with pytest.raises(type(error), match="of a"), spark_watched():
        raise error
