"""Paths and URLs, distinguished."""

from __future__ import annotations

from typing import Any

import pytest
from obstore.exceptions import GenericError, UnknownConfigurationKeyError
from obstore.store import AzureStore, GCSStore, S3Store

from rowtide.core.errors import PlaceUnnamed
from rowtide.core.redaction import redact
from rowtide.storage.errors import StorageEndpointMalformed, StorageSchemeUnsupported, StorageUrlMalformed
from rowtide.storage.places import (
    VARIABLES,
    ObjectUrl,
    Provider,
    allows_http,
    choose_settings,
    hadoop_settings,
    is_object_url,
    local_path,
    parse_object_url,
    require_place,
    spark_url,
)


@pytest.mark.parametrize(
    ("place", "path"),
    [
        ("lake", "lake"),
        ("/a b/lake", "/a b/lake"),
        ("~/lake", "~/lake"),
        ("file:/lake", "/lake"),
        ("file:///lake", "/lake"),
        ("FILE://localhost/lake", "/lake"),
        ("file:///a%20b", "/a%20b"),
        ("s3a://bucket/lake", None),
        ("hdfs:/lake", None),
    ],
)
def test_a_path_or_file_url_names_a_path_of_this_machine(place: str, path: str | None) -> None:
    assert local_path(place) == path


@pytest.mark.parametrize(
    ("place", "problem"),
    [
        ("", "it is empty"),
        ("  ", "it is empty"),
        ("/data\0", "it has a NUL character"),
        (None, "of the type NoneType"),
        (5, "of the type int"),
        (b"/data", "of the type bytes"),
    ],
)
def test_an_empty_text_is_not_the_current_folder(place: Any, problem: str) -> None:
    with pytest.raises(PlaceUnnamed, match=problem):
        require_place(place)


ABFSS = "abfss://lake@ours.dfs.core.windows.net"
KEYS = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "hidden"}


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("s3://bucket", ObjectUrl(Provider.S3, "bucket", "")),
        ("S3A://bucket/a b/%20/", ObjectUrl(Provider.S3, "bucket", "a b/%20")),
        ("gs://bucket_1.x/lake", ObjectUrl(Provider.GCS, "bucket_1.x", "lake")),
        ("az://lake/a", ObjectUrl(Provider.AZURE, "lake", "a")),
        (f"{ABFSS}/a", ObjectUrl(Provider.AZURE, "lake", "a", "ours")),
    ],
)
def test_a_url_names_bucket_and_folder(text: str, parsed: ObjectUrl) -> None:
    assert parse_object_url(text) == parsed
    assert parse_object_url(str(parsed)) == parsed


@pytest.mark.parametrize(
    "text", ["s3://", "s3:///lake", "s3://key:secret@bucket/lake", "s3://bucket/a//b", "gs://b/../a", "az://b/a/."]
)
def test_a_url_that_names_no_place_is_refused(text: str) -> None:
    with pytest.raises(StorageUrlMalformed, match="RT-2206") as raised:
        parse_object_url(text)
    assert "secret" not in redact(str(raised.value))


@pytest.mark.parametrize("text", ["hdfs://name/lake", "s3:bucket", "/lake", "s3", "https://bucket/lake"])
def test_other_places_are_no_object_stores(text: str) -> None:
    assert not is_object_url(text)
    with pytest.raises(StorageSchemeUnsupported, match="RT-2202"):
        parse_object_url(text)


@pytest.mark.parametrize(
    ("place", "for_spark"),
    [
        ("s3://bucket/lake", "s3a://bucket/lake"),
        ("gs://bucket", "gs://bucket"),
        ("az://lake/a", f"{ABFSS}/a"),
        (f"{ABFSS}/a", f"{ABFSS}/a"),
        ("/lake", "/lake"),
        ("file:/lake", "file:/lake"),
    ],
)
def test_spark_reaches_a_place_by_its_own_url(place: str, for_spark: str) -> None:
    assert spark_url(place, {"AZURE_STORAGE_ACCOUNT_NAME": "ours"}) == for_spark


def test_a_container_without_account_is_refused() -> None:
    with pytest.raises(StorageUrlMalformed, match="AZURE_STORAGE_ACCOUNT_NAME is not set"):
        spark_url("az://lake/a", {})


def test_a_store_is_handed_on_without_what_one_machine_has() -> None:
    environment = {**KEYS, "AWS_WEB_IDENTITY_TOKEN_FILE": "/token", "AWS_REGION": "", "PATH": "/bin"}
    assert choose_settings(parse_object_url("s3://bucket"), environment) == KEYS


@pytest.mark.parametrize(
    ("settings", "is_allowed"),
    [
        ({}, False),
        ({"AWS_ENDPOINT_URL": "https://store"}, False),
        ({"AWS_ENDPOINT_URL": "HTTP://127.0.0.1:9000"}, True),
        ({"AZURE_STORAGE_USE_EMULATOR": "true"}, True),
    ],
)
def test_http_is_used_where_the_endpoint_says_so(settings: dict[str, str], *, is_allowed: bool) -> None:
    assert allows_http(settings) == is_allowed


def test_spark_gets_the_endpoint_and_the_keys_of_an_s3_server() -> None:
    environment = {**KEYS, "AWS_ENDPOINT_URL": "http://127.0.0.1:9000", "AWS_REGION": "eu-central-1"}
    assert hadoop_settings("s3://bucket/lake", environment) == {
        "fs.s3a.endpoint": "http://127.0.0.1:9000",
        "fs.s3a.connection.ssl.enabled": "false",
        "fs.s3a.path.style.access": "true",
        "fs.s3a.endpoint.region": "eu-central-1",
        "fs.s3a.access.key": "id",
        "fs.s3a.secret.key": "hidden",
        "fs.s3a.aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
    }


@pytest.mark.parametrize(
    ("environment", "added"),
    [
        (
            {**KEYS, "AWS_SESSION_TOKEN": "token"},
            {
                "fs.s3a.session.token": "token",
                "fs.s3a.aws.credentials.provider": "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider",
            },
        ),
        (
            {"AWS_SERVER_SIDE_ENCRYPTION": "aws:kms", "AWS_SSE_KMS_KEY_ID": "arn:1"},
            {"fs.s3a.encryption.algorithm": "SSE-KMS", "fs.s3a.encryption.key": "arn:1"},
        ),
        ({"AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "true"}, {"fs.s3a.path.style.access": "false"}),
        (
            {"AWS_WEB_IDENTITY_TOKEN_FILE": "/token"},
            {
                "fs.s3a.aws.credentials.provider": (
                    "software.amazon.awssdk.auth.credentials.WebIdentityTokenFileCredentialsProvider"
                )
            },
        ),
        ({"AWS_ENDPOINT_URL": "http://all", "AWS_ENDPOINT_URL_S3": "https://s3"}, {"fs.s3a.endpoint": "https://s3"}),
    ],
)
def test_spark_gets_what_else_says_how_a_bucket_is_reached(environment: dict[str, str], added: dict[str, str]) -> None:
    assert added.items() <= hadoop_settings("s3://bucket", environment).items()


def test_without_keys_spark_searches_for_a_role_itself() -> None:
    assert hadoop_settings("s3://bucket", {}) == {"fs.s3a.path.style.access": "true"}


def test_spark_gets_the_key_of_an_account() -> None:
    host = "ours.dfs.core.windows.net"
    assert hadoop_settings(f"{ABFSS}/a", {"AZURE_STORAGE_ACCOUNT_KEY": "k"}) == {f"fs.azure.account.key.{host}": "k"}
    oauth = hadoop_settings(
        "az://lake/a",
        {
            "AZURE_STORAGE_ACCOUNT_NAME": "ours",
            "AZURE_STORAGE_CLIENT_ID": "client",
            "AZURE_STORAGE_CLIENT_SECRET": "hidden",
            "AZURE_STORAGE_TENANT_ID": "tenant",
        },
    )
    assert oauth[f"fs.azure.account.auth.type.{host}"] == "OAuth"


def test_a_local_lake_needs_no_settings() -> None:
    assert hadoop_settings("/lake", KEYS) == {}


@pytest.mark.parametrize("url", ["s3://bucket", "gs://bucket", "az://bucket"])
def test_the_client_knows_the_names_of_all_variables(url: str) -> None:
    names = VARIABLES[parse_object_url(url).provider]
    stores: dict[Provider, Any] = {Provider.S3: S3Store, Provider.GCS: GCSStore, Provider.AZURE: AzureStore}
    unknown = []
    for name in names:
        try:
            stores[parse_object_url(url).provider]("bucket", config={name.lower(): "true"})
        except UnknownConfigurationKeyError:
            unknown.append(name)
        except (GenericError, ValueError):
            # It knows the name: the value is none, or others lack.
            continue
    assert names
    assert unknown == []


@pytest.mark.parametrize("endpoint", ["localhost:9000", "minio", "http://", "s3://bucket", "http:/host", "http://a b"])
def test_an_endpoint_without_scheme_or_host_is_refused(endpoint: str) -> None:
    environment = {"AWS_ENDPOINT_URL": endpoint}
    with pytest.raises(StorageEndpointMalformed, match="RT-2209: AWS_ENDPOINT_URL is"):
        choose_settings(parse_object_url("s3://bucket"), environment)
    assert choose_settings(parse_object_url("gs://bucket"), environment) == {}
