"""What this process's surroundings say of Spark: variables, Spark's own files, and the program that started it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from rowtide.lake.errors import SparkSettingInvalid
from rowtide.lake.spark.arguments import PROPERTIES_FILE, parse_properties, parse_settings, parse_submit_arguments
from rowtide.lake.spark.jars import JARS_FOLDER
from rowtide.lake.spark.settings import MASTER, SHARED_STORAGE, is_true

INSTALLED = "installed"
"""Instead of a folder of jars: Spark has all jars on its class path."""
CONF_VARIABLE = "ROWTIDE_SPARK_CONF"
SHARED_VARIABLE = "ROWTIDE_SHARED_STORAGE"
ARGUMENTS_VARIABLE = "PYSPARK_SUBMIT_ARGS"


def read_asked(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what variables of rowtide's ask for. Raises `SparkSettingInvalid`."""
    asked = parse_settings(environment.get(CONF_VARIABLE, ""))
    if is_true(environment.get(SHARED_VARIABLE, "")):
        asked.setdefault(SHARED_STORAGE, "true")
    return asked


def read_given(environment: Mapping[str, str], spark_home: Path) -> dict[str, str]:
    """Return the settings that Spark itself is given: by spark-submit's arguments, spark-defaults.conf, variables.

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
    """Return the jars of the user's folder of jars, none if Spark has them all; None if the user says nothing of jars.

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
    # A finder may say so by this error, too.
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
