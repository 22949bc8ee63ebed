"""Where each setting of a started Spark comes from."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rowtide.lake.jars import DELTA
from rowtide.lake.jvm import find_spark_home

_TELLS_SETTINGS = """
import json, sys
from rowtide.lake.session import build_session, pinned, requesting
from rowtide.lake.spark_settings import SparkRequest

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


_WRITES_A_TABLE = """
import json, sys, rowtide
session = rowtide.build_session()
session.range(3).write.format("delta").save(sys.argv[1])
names = ("spark.a", "spark.master", "spark.jars.packages", "spark.sql.shuffle.partitions", "spark.app.name")
conf = {name: session.sparkContext.getConf().get(name) for name in names}
print(json.dumps([conf, session.read.format("delta").load(sys.argv[1]).count()]))
session.stop()
"""


@pytest.mark.exhaustive
@pytest.mark.spark
def test_a_folder_of_jars_is_used_in_place_of_the_network(tmp_path: Path) -> None:
    resolved = Path.home() / ".ivy2.5.2" / "jars"
    jars = tmp_path / "jars"
    jars.mkdir()
    for group in ("io.delta_", "io.unitycatalog_"):
        for jar in resolved.glob(f"{group}*.jar"):
            (jars / jar.name).symlink_to(jar)
    # Nowhere to resolve from, nor to.
    environment = os.environ | {
        "ROWTIDE_JARS": str(jars),
        "ROWTIDE_SPARK_CONF": f"spark.master=local[1] spark.jars.ivy={tmp_path}/ivy spark.jars.repositories=http://0:1",
    }
    script = [sys.executable, "-c", _WRITES_A_TABLE, str(tmp_path / "table")]
    ran = subprocess.run(script, capture_output=True, text=True, check=False, env=environment)
    assert ran.returncode == 0, ran.stderr
    conf, rows = json.loads(ran.stdout)
    assert (conf["spark.jars.packages"], rows) == (None, 3)
    assert not (tmp_path / "ivy").exists()


@pytest.mark.exhaustive
@pytest.mark.spark
def test_a_program_of_spark_submit_gets_what_was_submitted(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(_WRITES_A_TABLE)
    submit = [str(find_spark_home(os.environ) / "bin" / "spark-submit"), "--master", "local[1]", "--name", "mine"]
    submit += ["--packages", DELTA.package, "--conf", "spark.a=submit", "--conf", "spark.sql.shuffle.partitions=5"]
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable}
    ran = subprocess.run(
        [*submit, str(program), str(tmp_path / "table")], capture_output=True, text=True, check=False, env=environment
    )
    assert ran.returncode == 0, ran.stderr
    conf, rows = json.loads(ran.stdout)
    # The packages were resolved before the program, and are jars of it.
    assert conf == {
        "spark.a": "submit",
        "spark.master": "local[1]",
        "spark.jars.packages": None,
        "spark.sql.shuffle.partitions": "5",
        "spark.app.name": "mine",
    }
    assert rows == 3
