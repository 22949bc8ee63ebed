"""A REST catalogue of Iceberg: HTTP in this process, behind it Iceberg's own handlers and catalogue in Spark's JVM."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from py4j.protocol import Py4JJavaError

from builders.servers.http_servers import serving

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_STATUSES = {
    "NoSuchNamespaceException": 404,
    "NoSuchTableException": 404,
    "AlreadyExistsException": 409,
    "CommitFailedException": 409,
}
_REQUESTS = "org.apache.iceberg.rest.requests"


@dataclass
class RestCatalogue:
    """A Hadoop catalogue behind HTTP."""

    gateway: Any
    jvm: Any
    catalogue: Any
    mapper: Any
    loader: Any
    url: str = ""

    @classmethod
    def begin(cls, spark: SparkSession, warehouse: Path) -> RestCatalogue:
        """Return an empty catalogue."""
        jvm: Any = spark._jvm
        loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        context: Any = spark.sparkContext
        # One whose files the client can read by itself.
        catalogue = jvm.org.apache.iceberg.hadoop.HadoopCatalog()
        catalogue.setConf(context._jsc.hadoopConfiguration())
        catalogue.initialize("rest", {"warehouse": str(warehouse)})
        # The class of Iceberg's own mapper is not public.
        gateway = context._gateway
        kinds, values = (gateway.new_array(kind, 0) for kind in (jvm.java.lang.Class, jvm.java.lang.Object))
        make_mapper = loader.loadClass("org.apache.iceberg.rest.RESTObjectMapper").getDeclaredMethod("mapper", kinds)
        make_mapper.setAccessible(True)
        return cls(gateway, jvm, catalogue, make_mapper.invoke(None, values), loader)

    def answer(self, method: str, path: str, body: str) -> tuple[int, str]:
        """Return status and body of the answer to a request."""
        try:
            found = self._handle(method, [unquote(part) for part in path.strip("/").split("/")][1:], body)
        except Py4JJavaError as error:
            kind = error.java_exception.getClass().getSimpleName()
            status = _STATUSES.get(kind, 500)
            told = {"message": str(error.java_exception.getMessage()), "type": kind, "code": status}
            return status, json.dumps({"error": told})
        return (200, self.mapper.writeValueAsString(found)) if found is not None else (204, "")

    def _handle(self, method: str, parts: list[str], body: str) -> Any:
        handlers = self.jvm.org.apache.iceberg.rest.CatalogHandlers
        match method, parts:
            case "GET", ["config"]:
                return self.jvm.org.apache.iceberg.rest.responses.ConfigResponse.builder().build()
            case "POST", ["namespaces"]:
                # Without properties, of which this catalogue has none.
                [name] = json.loads(body)["namespace"]
                self.catalogue.createNamespace(self._namespace(name))
                return handlers.loadNamespace(self.catalogue, self._namespace(name))
            case "GET", ["namespaces", namespace]:
                return handlers.loadNamespace(self.catalogue, self._namespace(namespace))
            case "POST", ["namespaces", namespace, "tables"]:
                request = self._read(body, "CreateTableRequest")
                create = handlers.stageTableCreate if request.stageCreate() else handlers.createTable
                return create(self.catalogue, self._namespace(namespace), request)
            case "GET", ["namespaces", namespace, "tables", table]:
                every = self.jvm.org.apache.iceberg.rest.RESTCatalogProperties.SnapshotMode.ALL
                return handlers.loadTable(self.catalogue, self._table(namespace, table), every)
            case "POST", ["namespaces", namespace, "tables", table]:
                request = self._read(body, "UpdateTableRequest")
                return handlers.updateTable(self.catalogue, self._table(namespace, table), request)
            case "POST", ["namespaces", _, "tables", _, "metrics"]:
                return None
        raise AssertionError((method, parts))

    def _read(self, body: str, kind: str) -> Any:
        return self.mapper.readValue(body, self.loader.loadClass(f"{_REQUESTS}.{kind}"))

    def _namespace(self, name: str) -> Any:
        levels = self.gateway.new_array(self.jvm.java.lang.String, 1)
        levels[0] = name
        return self.jvm.org.apache.iceberg.catalog.Namespace.of(levels)

    def _table(self, namespace: str, table: str) -> Any:
        return self.jvm.org.apache.iceberg.catalog.TableIdentifier.of(self._namespace(namespace), table)


@contextmanager
def rest_catalogue(spark: SparkSession, warehouse: Path) -> Iterator[RestCatalogue]:
    """Serve an empty catalogue."""
    catalogue = RestCatalogue.begin(spark, warehouse)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self._answer()

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0"))).decode()
            status, answer = catalogue.answer(self.command, urlsplit(self.path).path, body)
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer.encode())))
            self.end_headers()
            self.wfile.write(answer.encode())

        def log_message(self, *_: object) -> None:
            pass

    with serving(Handler) as catalogue.url:
        yield catalogue
