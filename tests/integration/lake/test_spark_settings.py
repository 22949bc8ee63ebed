"""Where each setting of a started Spark comes from."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

_TELLS_SETTINGS = """
import json, sys
from rowtide.lake.session import build_session, pinned, requesting
from rowtide.lake.spark.settings import SparkRequest

with requesting(SparkRequest("local[1]", {"spark.a": "option", "spark.b": "option"})):
    session = build_session(conf={"spark.a": "argument"})
conf = dict(session.sparkContext.getConf().getAll())
conf["pinned"] = pinned(session).conf.get("spark.sql.session.timeZone")
conf["partitions"] = pinned(session).conf.get("spark.sql.shuffle.partitions")
conf["memory"] = str(session._jvm.java.lang.Runtime.getRuntime().maxMemory() >> 20)
conf["property"] = str(session._jvm.java.lang.System.getProperty("given"))
print(json.dumps(conf))
session.stop()
"""


@pytest.mark.exhaustive
@pytest.mark.spark
def test_options_beat_variables_beat_sparks_own_beat_defaults(tmp_path: Path) -> None:
    defaults = {f"spark.{name}": "file" for name in "abcde"} | {
        "spark.driver.extraJavaOptions": "-Dgiven=yes",
        "spark.sql.shuffle.partitions": "11",
        "spark.sql.session.timeZone": "Asia/Tokyo",
        "spark.master": "spark://nowhere:1",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    }
    (tmp_path / "spark-defaults.conf").write_text("".join(f"{name} {value}\n" for name, value in defaults.items()))
    environment = os.environ | {
        "SPARK_CONF_DIR": str(tmp_path),
        "PYSPARK_SUBMIT_ARGS": (
            "--master yarn --driver-memory 300m --conf spark.d=submit --conf spark.b=submit pyspark-shell"
        ),
        "ROWTIDE_SPARK_CONF": "spark.b=variable spark.c='of the variable' spark.driver.memory=500m",
    }
    script = [sys.executable, "-c", _TELLS_SETTINGS]
    ran = subprocess.run(script, capture_output=True, text=True, check=False, env=environment)
    assert ran.returncode == 0, ran.stderr
    conf = json.loads(ran.stdout)
    assert [conf[f"spark.{name}"] for name in "abcde"] == ["argument", "option", "of the variable", "submit", "file"]
    assert conf["spark.master"] == "local[1]"
    assert 400 < int(conf["memory"]) < 600
    assert conf["property"] == "yes"
    assert conf["partitions"] == "11"
    assert conf["pinned"] == "UTC"
    assert conf["spark.sql.extensions"] == "io.delta.sql.DeltaSparkSessionExtension"
    assert "io.delta:delta-spark" in conf["spark.jars.packages"]
