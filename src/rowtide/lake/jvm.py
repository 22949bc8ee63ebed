"""The JVM of a Spark application: the settings and jars that the process's environment asks for, and its start."""

from __future__ import annotations

import logging
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rowtide.databases.file_access import PRIVATE
from rowtide.lake.errors import JavaMissing, SparkNotStarted, SparkSettingInvalid
from rowtide.lake.jars import JARS_FOLDER
from rowtide.lake.spark_settings import (
    HADOOP,
    MASTER,
    PROPERTIES_FILE,
    SHARED_STORAGE,
    is_true,
    parse_properties,
    parse_settings,
    parse_submit_arguments,
    with_settings,
)

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway


INSTALLED = "installed"
"""The value in place of a folder of jars: Spark has all jars on its class path."""
CONF_VARIABLE = "ROWTIDE_SPARK_CONF"
SHARED_VARIABLE = "ROWTIDE_SHARED_STORAGE"
ARGUMENTS_VARIABLE = "PYSPARK_SUBMIT_ARGS"


def read_asked(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the settings in rowtide's environment variables. Raises `SparkSettingInvalid`."""
    asked = parse_settings(environment.get(CONF_VARIABLE, ""))
    if is_true(environment.get(SHARED_VARIABLE, "")):
        asked.setdefault(SHARED_STORAGE, "true")
    return asked


def read_given(environment: Mapping[str, str], spark_home: Path) -> dict[str, str]:
    """Return the settings that Spark itself gets: from spark-submit's arguments, spark-defaults.conf and its variables.

    Raises `SparkSettingInvalid` if a file of settings cannot be read.
    """
    arguments = parse_submit_arguments(environment.get(ARGUMENTS_VARIABLE, ""))
    named = arguments.pop(PROPERTIES_FILE, None)
    usual = Path(environment.get("SPARK_CONF_DIR") or spark_home / "conf") / "spark-defaults.conf"
    given = {**_read_properties(Path(named) if named is not None else usual), **arguments}
    for variable, setting in (
        ("MASTER", MASTER),
        ("SPARK_DRIVER_MEMORY", "spark.driver.memory"),
        ("SPARK_LOCAL_IP", "spark.driver.host"),
        ("SPARK_LOCAL_IP", "spark.driver.bindAddress"),
    ):
        if environment.get(variable):
            given.setdefault(setting, environment[variable])
    return given


def list_jars(environment: Mapping[str, str]) -> list[str] | None:
    """Return the jars of the user's folder, empty if Spark has them all; None if the user has not chosen any.

    Raises `SparkSettingInvalid` if there is no jar in the folder.
    """
    folder = environment.get(JARS_FOLDER)
    if not folder:
        return None
    if folder == INSTALLED:
        return []
    jars = sorted(str(jar.absolute()) for jar in Path(folder).expanduser().glob("*.jar"))
    if not jars:
        raise SparkSettingInvalid(f"{JARS_FOLDER}={folder}", "there is no jar in the folder")
    return jars


def list_installed(spark_home: Path) -> list[str]:
    """Return the names of Spark's own jars."""
    return sorted(jar.name for jar in (spark_home / "jars").glob("*.jar"))


def find_spark_home(environment: Mapping[str, str]) -> Path:
    """Return Spark's folder: SPARK_HOME, or that of the package pyspark, which is not imported for it."""
    package = None
    # A finder may raise this error too.
    with suppress(ModuleNotFoundError):
        package = find_spec("pyspark")
    usual = Path(package.origin).parent if package is not None and package.origin is not None else Path("/")
    return Path(environment.get("SPARK_HOME") or usual)


def _read_properties(file: Path) -> dict[str, str]:
    try:
        return parse_properties(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise SparkSettingInvalid(str(file), f"the file cannot be read: {error}") from error


log = logging.getLogger("rowtide.lake")

NEEDED_JAVA = 17


def is_submitted() -> bool:
    """Return whether spark-submit has started this process from a JVM, which is Spark's driver."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def read_submitted(gateway: JavaGateway) -> dict[str, str]:
    """Return the settings of the JVM of spark-submit."""
    from pyspark import SparkConf

    of_spark: Any = SparkConf
    return dict(of_spark(_jvm=gateway.jvm).getAll())


def connect_submitted() -> JavaGateway:
    """Connect to the JVM of spark-submit."""
    from pyspark.java_gateway import launch_gateway

    return launch_gateway()  # type: ignore[no-untyped-call]


def launch_jvm(settings: Mapping[str, str]) -> JavaGateway:
    """Start a JVM with settings, which beat those in the arguments of spark-submit. Raises `SparkNotStarted`.

    Hadoop's settings, keys of object stores among them, are omitted: every user of this machine sees a process's
    arguments, and Hadoop begins with the application. The JVM's output is kept off the terminal unless rowtide logs at
    level INFO.
    """
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    # Rows that Spark shuffles are in temporary files.
    private: dict[str, Any] = {"umask": PRIVATE}
    with _arguments(settings):
        if log.isEnabledFor(logging.INFO):
            return launch_gateway(None, private)  # type: ignore[no-untyped-call]
        # Errors reach Python as exceptions; PySpark would log those with a query a second time.
        for name in ("SQLQueryContextLogger", "py4j"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
        with tempfile.TemporaryFile() as output:
            try:
                return launch_gateway(None, {"stdout": output, "stderr": output} | private)  # type: ignore[no-untyped-call]
            except PySparkRuntimeError as error:
                output.seek(0)
                raise SparkNotStarted(_last_complaint(output.read().decode(errors="replace"))) from error


@contextmanager
def _arguments(settings: Mapping[str, str]) -> Iterator[None]:
    """Add settings to the variable from which PySpark takes the arguments of spark-submit."""
    given = os.environ.get(ARGUMENTS_VARIABLE)
    os.environ[ARGUMENTS_VARIABLE] = with_settings(
        given or "", {name: value for name, value in settings.items() if not name.startswith(HADOOP)}
    )
    try:
        yield
    finally:
        if given is None:
            del os.environ[ARGUMENTS_VARIABLE]
        else:
            os.environ[ARGUMENTS_VARIABLE] = given


@contextmanager
def interrupts_kept() -> Iterator[None]:
    """Keep the program's own handler of Ctrl-C: PySpark replaces any handler by its own."""
    handler = signal.getsignal(signal.SIGINT)
    yield
    is_own = callable(handler) and handler is not signal.default_int_handler
    if is_own and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, handler)


def require_java() -> None:
    """Raise `JavaMissing` unless a Java of the required version would be started."""
    java = _java_path()
    if java is None:
        raise JavaMissing(NEEDED_JAVA, "there is no `java` on the PATH and JAVA_HOME is not set")
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=True).stderr
    except (OSError, subprocess.CalledProcessError) as error:
        raise JavaMissing(NEEDED_JAVA, f"{java} does not run") from error
    version = re.search(r'version "(\d+)', answer)
    if version is None or int(version[1]) < NEEDED_JAVA:
        raise JavaMissing(NEEDED_JAVA, f"{java} is {' '.join(answer.split()[:3])}")


def _java_path() -> str | None:
    home = os.environ.get("JAVA_HOME")
    if home:
        return str(Path(home) / "bin" / "java")
    return shutil.which("java")


def _last_complaint(output: str) -> str:
    """Return the line of Spark's output that has the reason of a failed start."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    complaints = [line for line in lines if "unresolved dependency" in line or "Exception" in line or "Error" in line]
    return (complaints or lines or ["the JVM ended without a word"])[-1]
