"""Hive metastores of the jars that come with Spark: in Spark's JVM or a process of their own."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark

from builders.capture.captured_databases import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DATABASE = "javax.jdo.option.ConnectionURL"
_EMBEDDED = {"datanucleus.schema.autoCreateAll": "true", "hive.metastore.schema.verification": "false"}
_MAIN = "org.apache.hadoop.hive.metastore.HiveMetaStore"


@dataclass(frozen=True, slots=True)
class Metastore:
    """A metastore, by the address of its process, or that of the database of one inside the JVM."""

    url: str
    folder: Path

    @contextmanager
    def open(self, spark: SparkSession) -> Iterator[Any]:
        """Connect as another program, by Hive's own client in Spark's JVM."""
        jvm: Any = spark._jvm
        conf = jvm.org.apache.hadoop.hive.conf.HiveConf()
        is_embedded = self.url.startswith("jdbc:")
        conf.set("hive.metastore.uris", "" if is_embedded else self.url)
        for name, value in _EMBEDDED.items() if is_embedded else ():
            conf.set(name, value)
        if is_embedded:
            conf.set(_DATABASE, self.url)
        with closing(jvm.org.apache.hadoop.hive.metastore.HiveMetaStoreClient(conf)) as client:
            yield client

    def make_namespace(self, spark: SparkSession, name: str) -> None:
        """Create a database."""
        made: Any = spark._jvm
        with self.open(spark) as client:
            client.createDatabase(
                made.org.apache.hadoop.hive.metastore.api.Database(name, "", f"file:{self.folder}/{name}", {})
            )


@contextmanager
def running_metastore(folder: Path) -> Iterator[Metastore]:
    """Start a metastore, with a database in memory, on a free port of 127.0.0.1, and stop it."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = {
        _DATABASE: "jdbc:derby:memory:metastore;create=true",
        **_EMBEDDED,
        "hive.metastore.warehouse.dir": f"file:{folder}/warehouse",
        # It wants a library that Spark does not bring.
        "hive.async.log.enabled": "false",
        "derby.stream.error.file": str(folder / "derby.log"),
    }
    jars = Path(pyspark.__file__).parent / "jars" / "*"
    command = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"]
    command += [*(f"-D{name}={value}" for name, value in settings.items()), "-cp", str(jars), _MAIN, "-p", str(port)]
    said = folder / "metastore.log"
    with said.open("wb") as log, subprocess.Popen(command, cwd=folder, stdout=log, stderr=log) as server:
        try:
            wait_until(lambda: _answers(server, said, port), what="the metastore answers")
            yield Metastore(f"thrift://127.0.0.1:{port}", folder)
        finally:
            server.kill()


def _answers(server: subprocess.Popen[bytes], said: Path, port: int) -> bool:
    assert server.poll() is None, said.read_text()
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False
