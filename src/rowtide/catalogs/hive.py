"""A Hive metastore, by Hive's own client, which comes with Spark; no Spark job runs.

Delta tables are written as Spark writes them: its provider in a property, their schema left to Delta's log, but with
columns and comments for clients that only read the metastore. The lake is not written, so Spark's `describe` shows no
comments. Python has no other maintained client of the metastore's Thrift interface.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rowtide.catalogs.entries import KEY, SOURCE, CatalogueEntry, EntryColumn, Registered
from rowtide.catalogs.errors import (
    CatalogueNamespaceUnknown,
    CatalogueNameTaken,
    CatalogueRefused,
    CatalogueUnreachable,
)
from rowtide.lake.jars import describe
from rowtide.lake.session import spark_watched
from rowtide.storage.places import local_folder, spark_url

if TYPE_CHECKING:
    from py4j.protocol import Py4JJavaError
    from pyspark.sql import SparkSession

_LONGEST_COMMENT = 255
"""The length of a column's comment in the metastore's own tables."""
_NOT_A_NAME = re.compile(r"\W", re.ASCII)
_TYPES = {"timestamp_ntz": "timestamp", "void": "string"}
_TYPE_WORDS = re.compile("|".join(rf"\b{name}\b" for name in _TYPES))
_LOST = ("TTransportException", "Could not connect to meta store", "JDOFatalDataStoreException")
_WITHOUT_STATISTICS = {"EXTERNAL": "TRUE", "DO_NOT_UPDATE_STATS": "true"}
"""Otherwise the metastore would list all files of a table."""
_READERS = "org.apache.hadoop.mapred.SequenceFileInputFormat"
_WRITERS = "org.apache.hadoop.hive.ql.io.HiveSequenceFileOutputFormat"
_LIBRARY = "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"


class HiveMetastore:
    """A database of a Hive metastore."""

    def __init__(self, spark: SparkSession, place: str, namespace: str, source_id: str) -> None:
        self._place, self.namespace, self._source_id = place, namespace.lower(), source_id
        self._jvm: Any = spark._jvm  # noqa: SLF001 - Hive's client has no public way from Python
        with self._naming("connect"):
            self._client = self._connect()

    def _connect(self) -> Any:
        conf = self._jvm.org.apache.hadoop.hive.conf.HiveConf()
        if self._place.startswith("jdbc:"):
            # Without an address: a metastore inside this process on a database that it creates, as in Spark.
            settings = {
                "hive.metastore.uris": "",
                "javax.jdo.option.ConnectionURL": self._place,
                "datanucleus.schema.autoCreateAll": "true",
                "hive.metastore.schema.verification": "false",
            }
        else:
            settings = {"hive.metastore.uris": self._place}
        for name, value in {**settings, "hive.metastore.connect.retries": "1"}.items():
            conf.set(name, value)
        return self._jvm.org.apache.hadoop.hive.metastore.HiveMetaStoreClient(conf)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def as_name(self, name: str) -> str:
        """Return a name of lower-case letters, digits and _, which is all that Hive takes."""
        return _NOT_A_NAME.sub("_", name).lower()

    def fit(self, entry: CatalogueEntry) -> CatalogueEntry:
        """Return an entry with Hadoop's URL, and the types, lower-case names and short comments that Hive has."""
        folder = local_folder(entry.location)
        location = f"file:{folder}" if folder is not None else spark_url(entry.location, os.environ)
        columns = tuple(
            EntryColumn(column.name.lower(), _hive_type(column.type_name), column.comment[:_LONGEST_COMMENT])
            for column in entry.columns
        )
        return CatalogueEntry(entry.key, entry.name, location, entry.comment, columns)

    def list_tables(self) -> Sequence[Registered]:
        """Return the database's tables. Raises `CatalogueNamespaceUnknown`."""
        with self._naming("list tables"):
            if self.namespace not in list(self._client.getAllDatabases()):
                raise CatalogueNamespaceUnknown(self._place, self.namespace)
            names = self._client.getAllTables(self.namespace)
            return [self._read(table) for table in self._client.getTableObjectsByName(self.namespace, names)]

    def add(self, name: str, entry: CatalogueEntry) -> None:
        """Register a table as an external one. Raises `CatalogueNameTaken`."""
        with self._naming(f"add table {name}", name):
            self._client.createTable(self._make(name, entry))

    def correct(self, name: str, entry: CatalogueEntry) -> None:
        """Replace a table's registration in one call: readers see the one or the other."""
        with self._naming(f"alter table {name}"):
            self._client.alter_table(self.namespace, name, self._make(name, entry))

    def remove(self, name: str) -> None:
        """Remove a table's registration; its files stay."""
        with self._naming(f"drop table {name}"):
            self._client.dropTable(self.namespace, name, False, True)  # noqa: FBT003 - files stay, a missing table is none

    def _make(self, name: str, entry: CatalogueEntry) -> Any:
        api = self._jvm.org.apache.hadoop.hive.metastore.api
        parts = api.SerDeInfo()
        parts.setSerializationLib(_LIBRARY)
        parts.setParameters({"serialization.format": "1", "path": entry.location})
        files = api.StorageDescriptor()
        files.setLocation(entry.location)
        files.setInputFormat(_READERS)
        files.setOutputFormat(_WRITERS)
        files.setSerdeInfo(parts)
        files.setParameters({})
        files.setBucketCols([])
        files.setSortCols([])
        files.setNumBuckets(0)
        files.setCols([api.FieldSchema(column.name, column.type_name, column.comment) for column in entry.columns])
        table = api.Table()
        table.setDbName(self.namespace)
        table.setTableName(name)
        table.setTableType("EXTERNAL_TABLE")
        table.setPartitionKeys([])
        table.setSd(files)
        table.setParameters(
            {
                **_WITHOUT_STATISTICS,
                "spark.sql.sources.provider": "delta",
                "comment": entry.comment,
                SOURCE: self._source_id,
                KEY: entry.key,
            }
        )
        return table

    def _read(self, table: Any) -> Registered:
        parameters: Mapping[str, str] = dict(table.getParameters() or {})
        if parameters.get(SOURCE) != self._source_id or KEY not in parameters:
            return Registered(table.getTableName())
        files = table.getSd()
        columns = tuple(
            EntryColumn(column.getName(), column.getType(), column.getComment() or "") for column in files.getCols()
        )
        entry = CatalogueEntry(
            parameters[KEY],
            "",
            files.getLocation(),
            parameters.get("comment", ""),
            columns,
        )
        return Registered(table.getTableName(), parameters[KEY], entry)

    @contextmanager
    def _naming(self, action: str, name: str = "") -> Iterator[None]:
        """Raise the catalogue's errors for those of Hive's client in the block."""
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        try:
            with spark_watched():
                yield
        except Py4JJavaError as error:
            raise self._name(error, action, name) from error
        except PySparkException as error:
            # Spark's error for an invalid address.
            raise CatalogueUnreachable(self._place, str(error)) from error

    def _name(self, error: Py4JJavaError, action: str, name: str) -> Exception:
        reason = describe(error)
        if any(sign in str(error) for sign in _LOST):
            return CatalogueUnreachable(self._place, reason)
        if name and error.java_exception.getClass().getSimpleName() == "AlreadyExistsException":
            return CatalogueNameTaken(self.namespace, name)
        return CatalogueRefused(self._place, action, reason)


def _hive_type(lake_type: str) -> str:
    return _TYPE_WORDS.sub(lambda found: _TYPES[found[0]], lake_type)
