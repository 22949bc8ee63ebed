"""Settings as spark-submit, spark-defaults.conf and rowtide's own variable write them."""

from __future__ import annotations

import shlex

import pytest

from rowtide.lake.errors import SparkSettingInvalid
from rowtide.lake.spark.arguments import (
    parse_properties,
    parse_setting,
    parse_settings,
    parse_submit_arguments,
    with_settings,
)


def test_a_value_may_have_any_character() -> None:
    value = "-Da=b 'c' \"d\",e\nf\\g"
    assert parse_setting(f"spark.x={value}") == ("spark.x", value)
    assert parse_settings(f"spark.a=1\n {shlex.quote(f'spark.x={value}')}") == {"spark.a": "1", "spark.x": value}
    assert parse_settings("  ") == {}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("spark.x", "no equals sign"),
        ("spark.a=1,spark.b=2 fs.s3a.endpoint=x", 'does not begin with "spark."'),
        ("spark.x='1", "a quotation mark is not closed"),
    ],
)
def test_settings_in_another_form_are_refused(text: str, reason: str) -> None:
    with pytest.raises(SparkSettingInvalid, match=f"RT-1012: .*{reason}"):
        parse_settings(text)


def test_submit_arguments_become_settings_and_options_win() -> None:
    arguments = (
        "--verbose --master spark://h:7077 --conf spark.master=yarn -c 'spark.x=a b' --conf=spark.y=c=d "
        "--packages g:a:1,g:b:2 --driver-memory=3g --properties-file /etc/x.conf --unknown z pyspark-shell --name no"
    )
    assert parse_submit_arguments(arguments) == {
        "spark.master": "spark://h:7077",
        "spark.x": "a b",
        "spark.y": "c=d",
        "spark.jars.packages": "g:a:1,g:b:2",
        "spark.driver.memory": "3g",
        "--properties-file": "/etc/x.conf",
    }


@pytest.mark.parametrize("given", ["", "pyspark-shell", "--master yarn --conf spark.x=0 pyspark-shell a b"])
def test_added_settings_beat_the_arguments(given: str) -> None:
    settings = {"spark.master": "local[2]", "spark.x": "a 'b'", "spark.driver.memory": "2g"}
    arguments = with_settings(given, settings)
    assert parse_submit_arguments(arguments) == settings
    assert "pyspark-shell" in shlex.split(arguments)


def test_spark_defaults_are_java_properties() -> None:
    text = """
# a comment
! another
spark.master           spark://h:7077
spark.a=1
spark.b : two words\t
spark.c   -Dkey\\=value -XX:+Use \\
          more
  spark.d\\ e=\\u0041\\n
spark.path  s3a://bucket/x
spark.empty
"""
    assert parse_properties(text) == {
        "spark.master": "spark://h:7077",
        "spark.a": "1",
        "spark.b": "two words",
        "spark.c": "-Dkey=value -XX:+Use more",
        "spark.d e": "A",
        "spark.path": "s3a://bucket/x",
        "spark.empty": "",
    }
