"""The package as a zip, which executors put on Python's path: they run the driver's version, installed or not."""

from __future__ import annotations

import atexit
import shutil
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark import SparkContext


_PACKAGE = Path(__file__).parents[2]


def ship_package(context: SparkContext) -> None:
    """Give the package to an application's executors; the file is there as long as this process."""
    folder = Path(tempfile.mkdtemp(prefix="rowtide-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    context.addPyFile(str(zip_package(folder / "rowtide.zip")))


def zip_package(file: Path) -> Path:
    """Write the package's modules into a zip; return it."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for module in sorted(_PACKAGE.rglob("*.py")):
            archive.write(module, module.relative_to(_PACKAGE.parent))
    return file
