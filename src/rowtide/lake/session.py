"""The SparkSession: the user's own, with pinned settings, or a new one."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

from rowtide.core.errors import ExtraMissing
from rowtide.lake import spark_settings
from rowtide.lake.application import start_application, storage_settings
from rowtide.lake.errors import SparkLost, SparkRunning, StorageNotShared
from rowtide.lake.jars import Library
from rowtide.lake.jvm import find_spark_home, read_asked, read_given, require_java
from rowtide.storage.places import local_folder

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_PARTITIONS_PER_CORE = 4
# Sources that Hadoop names for settings which the user has not made.
_OWN_DEFAULTS = "-default.xml"
_BY_SPARK = "Set by Spark"


class _Requested:
    """The request of this process to Spark, which has one application per process."""

    request: ClassVar[spark_settings.SparkRequest] = spark_settings.SparkRequest()


@contextmanager
def requesting(request: spark_settings.SparkRequest) -> Iterator[None]:
    """Within the block, build sessions as requested, whichever part of the program needs one first."""
    before, _Requested.request = _Requested.request, request
    try:
        yield
    finally:
        _Requested.request = before


def build_session(
    *,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    shared_storage: bool = False,
    lakes: Sequence[str] = (),
    formats: Sequence[Library] = (),
) -> SparkSession:
    """Build a session with Delta, or return this process's existing one.

    The order of settings: `master` and `conf`, ROWTIDE_SPARK_CONF, what Spark itself was given (spark-submit's
    arguments, spark-defaults.conf, MASTER), rowtide's defaults. `shared_storage` declares that every worker has this
    machine's folders under the same paths. `lakes` are places that Spark will read: jars for their storages are
    resolved, and those of `formats`. Raises `JavaMissing`, `ExtraMissing`, `SparkNotStarted`, `SparkRunning`,
    `SparkSettingInvalid`.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise ExtraMissing("pyspark", "spark") from error
    ambient = _Requested.request
    request = spark_settings.SparkRequest(
        master or ambient.master, {**ambient.conf, **(conf or {})}, shared_storage or ambient.has_shared_storage
    )
    existing = SparkSession.getActiveSession()
    if existing is None and _is_started():
        existing = SparkSession.builder.getOrCreate()
    if existing is not None:
        _require_master(existing, request)
        return existing
    require_java()
    start_application(request, lakes, formats)
    return SparkSession.builder.getOrCreate()


def _require_master(session: SparkSession, request: spark_settings.SparkRequest) -> None:
    """Raise `SparkRunning` if the request names another master than the session's."""
    running = session.conf.get(spark_settings.MASTER, None)
    if request.master is not None and running is not None and request.master != running:
        raise SparkRunning(running, request.master)


def require_reachable(*places: str) -> None:
    """Require that the tasks of this process's application, which may not have started, reach local folders.

    Raises `StorageNotShared` if the master is not local, and the folders not declared shared.
    """
    folders = [place for place in places if local_folder(place) is not None]
    if not folders:
        return
    asked = {**read_asked(os.environ), **_Requested.request.settings()}
    running = _find_running()
    conf = {**read_given(os.environ, find_spark_home(os.environ)), **asked} if running is None else asked
    master = conf.get(spark_settings.MASTER, spark_settings.USUAL_MASTER) if running is None else str(running.master)
    if spark_settings.is_local(master):
        return
    if running is not None:
        with spark_watched():
            conf[spark_settings.SHARED_STORAGE] = (
                running.getConf().get(spark_settings.SHARED_STORAGE, conf.get(spark_settings.SHARED_STORAGE, "")) or ""
            )
    if not spark_settings.is_true(conf.get(spark_settings.SHARED_STORAGE, "")):
        raise StorageNotShared(folders[0], master)


def pinned(spark: SparkSession, *lakes: str) -> SparkSession:
    """Return a session of the same application with rowtide's settings; the user's session is unchanged.

    Settings on which results depend are always set. Those on which plans depend, and by which Hadoop reaches some
    lakes, are set only if the user has not set them.
    """
    session = _begin_session(spark)
    for name, usual in spark_settings.SESSION_DEFAULTS.items():
        session.conf.set(name, spark.conf.get(name, usual) or usual)
    for name, value in spark_settings.PINNED_SETTINGS.items():
        session.conf.set(name, value)
    for name, value in storage_settings(lakes).items():
        if not _is_set(spark, name):
            session.conf.set(name, value)
    return session


def _is_set(spark: SparkSession, name: str) -> bool:
    """Return whether the user has set a setting of Hadoop's: for Spark, or in a file of Hadoop's."""
    if spark.conf.get(name, None) is not None or spark.conf.get(f"{spark_settings.HADOOP}{name}", None) is not None:
        return True
    session: Any = spark
    if not hasattr(session, "_jsc"):
        return False
    sources = session._jsc.hadoopConfiguration().getPropertySources(name) or ()  # noqa: SLF001 - no public way
    return any(not source.endswith(_OWN_DEFAULTS) and not source.startswith(_BY_SPARK) for source in sources)


def _begin_session(spark: SparkSession) -> SparkSession:
    """Return another session of the same application; over Spark Connect it has the given one's settings and names."""
    if hasattr(spark, "newSession"):
        return spark.newSession()
    # A Spark Connect server knows a session only after its first request.
    spark.conf.get(spark_settings.SHUFFLE_PARTITIONS)
    of_connect: Any = spark
    begun: SparkSession = of_connect.cloneSession()
    return begun


def for_reading(spark: SparkSession, *lakes: str) -> SparkSession:
    """Return a `pinned` session for reading windows of any size of some lakes.

    Its shuffles have enough partitions for all cores, small enough to be sorted in memory, and at least as many as the
    given session's; Spark coalesces small ones.
    """
    session = pinned(spark, *lakes)
    given = spark.conf.get(spark_settings.SHUFFLE_PARTITIONS) or ""
    partitions = _PARTITIONS_PER_CORE * spark_settings.count_cores(lambda name: session.conf.get(name, None))
    session.conf.set(spark_settings.SHUFFLE_PARTITIONS, str(max(partitions, int(given) if given.isdigit() else 0)))
    return session


@contextmanager
def spark_watched() -> Iterator[None]:
    """Raise `SparkLost` for any error of a call whose JVM is gone."""
    try:
        from py4j.protocol import Py4JError
    except ImportError as error:
        raise ExtraMissing("pyspark", "spark") from error
    try:
        yield
    except (Py4JError, OSError) as error:
        if not _is_lost():
            raise
        raise SparkLost((str(error).strip() or type(error).__name__).splitlines()[0]) from error


@contextmanager
def spark_loss_named() -> Iterator[None]:
    """As `spark_watched`, for code that may never start Spark."""
    try:
        yield
    except Exception:
        # Spark's error classes exist only after Spark is imported, which most commands never do.
        if not _is_started():
            raise
        with spark_watched():
            raise


def _find_running() -> SparkContext | None:
    """Return this process's application; None if it has not started Spark."""
    contexts: Any = getattr(sys.modules.get("pyspark"), "SparkContext", None)
    # Not `getOrCreate`, which would start one.
    running: SparkContext | None = contexts._active_spark_context if contexts is not None else None  # noqa: SLF001
    return running


def _is_started() -> bool:
    return _find_running() is not None


def _is_lost() -> bool:
    """Return whether this process started Spark and it no longer answers."""
    from py4j.protocol import Py4JError

    context = _find_running()
    if context is None:
        return False
    try:
        return not context.version
    except (AttributeError, Py4JError, OSError):
        return True
