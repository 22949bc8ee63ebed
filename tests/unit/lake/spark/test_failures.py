"""What Spark lacks, in the words of its errors."""

from __future__ import annotations

import pytest

from rowtide.lake.spark.failures import find_lack
from rowtide.lake.spark.jars import DELTA, azure_library, s3_library

S3A = "org.apache.hadoop.fs.s3a.S3AFileSystem"
ABFS = "org.apache.hadoop.fs.azurebfs.SecureAzureBlobFileSystem"


_S3, _AZURE, _DELTA = (library.package for library in (s3_library("3.4.2"), azure_library("3.4.2"), DELTA))


@pytest.mark.parametrize(
    ("text", "class_name", "package"),
    [
        ("java.lang.ClassNotFoundException: Class org.apache.hadoop.fs.s3a.S3AFileSystem not found", S3A, _S3),
        ("java.lang.NoClassDefFoundError: software/amazon/awssdk/core/SdkX", "software.amazon.awssdk.core.SdkX", _S3),
        ('UnsupportedFileSystemException: No FileSystem for scheme "abfss"', ABFS, _AZURE),
        ("[DATA_SOURCE_NOT_FOUND] Failed to find the data source: delta. Make sure", DELTA.class_name, _DELTA),
    ],
)
def test_a_missing_jar_is_named_with_its_package(text: str, class_name: str, package: str) -> None:
    said = f"RT-1014: Spark has no class {class_name}, of the package {package}. "
    assert str(find_lack(text)).startswith(said)


def test_a_missing_module_of_executors_is_named() -> None:
    text = "  File \"x.py\", line 1, in <module>\nModuleNotFoundError: No module named 'pyarrow'\n"
    assert str(find_lack(text)).startswith("RT-1015: Python of Spark's executors has no module pyarrow. ")


@pytest.mark.parametrize("text", ["java.io.IOException: No space left on device", "ClassNotFoundException: org.x.Y"])
def test_other_failures_stay_what_they_are(text: str) -> None:
    assert find_lack(text) is None
