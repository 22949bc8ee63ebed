"""Places of lakes and log stores: a local path, or the URL of a folder of an object store.

The settings by which an object store is reached are mapped once for rowtide's client and for Spark. They come from the
standard environment variables (`AWS_…`, `GOOGLE_…`, `AZURE_…`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

from rowtide.core.errors import PlaceUnnamed
from rowtide.core.values import frozen
from rowtide.storage.errors import StorageEndpointMalformed, StorageSchemeUnsupported, StorageUrlMalformed

_URL = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?P<host>[^/]*)(?:/(?P<path>.*))?", re.IGNORECASE | re.DOTALL)
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_AZURE_HOST = re.compile(r"(?P<container>[^@/]+)@(?P<account>[a-z0-9]+)\.(?:dfs|blob)\.core\.windows\.net")


class Provider(StrEnum):
    """The kinds of object stores."""

    S3 = "s3"
    GCS = "gs"
    AZURE = "az"


_SCHEMES = {
    "s3": Provider.S3,
    "s3a": Provider.S3,
    "gs": Provider.GCS,
    "az": Provider.AZURE,
    "abfs": Provider.AZURE,
    "abfss": Provider.AZURE,
}

VARIABLES = {
    Provider.S3: (
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "AWS_REGION",
        "AWS_DEFAULT_REGION",
        "AWS_ENDPOINT_URL",
        "AWS_ENDPOINT_URL_S3",
        "AWS_VIRTUAL_HOSTED_STYLE_REQUEST",
        "AWS_SERVER_SIDE_ENCRYPTION",
        "AWS_SSE_KMS_KEY_ID",
        "AWS_SSE_BUCKET_KEY_ENABLED",
        "AWS_SKIP_SIGNATURE",
    ),
    Provider.GCS: (
        "GOOGLE_SERVICE_ACCOUNT_KEY",
        "GOOGLE_BASE_URL",
        "GOOGLE_BEARER_TOKEN",
        "GOOGLE_SKIP_SIGNATURE",
    ),
    Provider.AZURE: (
        "AZURE_STORAGE_ACCOUNT_NAME",
        "AZURE_STORAGE_ACCOUNT_KEY",
        "AZURE_STORAGE_SAS_KEY",
        "AZURE_STORAGE_CLIENT_ID",
        "AZURE_STORAGE_CLIENT_SECRET",
        "AZURE_STORAGE_TENANT_ID",
        "AZURE_STORAGE_USE_EMULATOR",
        "AZURE_STORAGE_ENDPOINT",
    ),
}
"""The variables that a process needs from another one that passes it a store.

Variables that are valid on one machine only are excluded: paths of files, and addresses from which a role's credentials
are fetched.
"""

_ENDPOINTS = frozenset({"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "GOOGLE_BASE_URL", "AZURE_STORAGE_ENDPOINT"})
_ENDPOINT = re.compile(r"https?://[^\s/?#]+(?:/\S*)?", re.IGNORECASE)
_TRUE = frozenset({"1", "true", "yes", "on", "y"})
_ENCRYPTIONS = {"AES256": "SSE-S3", "aws:kms": "SSE-KMS", "aws:kms:dsse": "DSSE-KMS"}


@frozen
class ObjectUrl:
    """A folder of a bucket, which Azure calls container; its path has no slash at either end and may be empty."""

    provider: Provider
    bucket: str
    path: str
    account: str | None = None
    """Azure's, if the URL names it."""

    def __str__(self) -> str:
        place = f"{self.provider}://{self.bucket}"
        if self.account is not None:
            place = f"abfss://{self.bucket}@{self.account}.dfs.core.windows.net"
        return f"{place}/{self.path}" if self.path else place


def parse_object_url(url: str) -> ObjectUrl:
    """Return what a URL of an object store names: `s3`, `gs` or `az`, and `s3a`, `abfs`, `abfss` as Spark calls them.

    Raises `StorageSchemeUnsupported`, `StorageUrlMalformed`.
    """
    parts = _URL.fullmatch(url)
    provider = _SCHEMES.get(parts["scheme"].lower()) if parts is not None else None
    if parts is None or provider is None:
        raise StorageSchemeUnsupported(url, url.partition(":")[0])
    path = (parts["path"] or "").strip("/")
    bucket, account = parts["host"], None
    if provider is Provider.AZURE and (host := _AZURE_HOST.fullmatch(bucket)) is not None:
        bucket, account = host["container"], host["account"]
    if not _BUCKET.fullmatch(bucket):
        raise StorageUrlMalformed(url, "it names no bucket" if not bucket else "its bucket's name is none")
    if any(part in {"", ".", ".."} for part in path.split("/")) and path:
        raise StorageUrlMalformed(url, 'a part of its path is empty, "." or ".."')
    return ObjectUrl(provider, bucket, path, account)


def is_object_url(place: str) -> bool:
    """Return whether a place is on an object store."""
    parts = _URL.match(place)
    return parts is not None and parts["scheme"].lower() in _SCHEMES


def choose_settings(url: ObjectUrl, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of an environment by which a store is reached, also from another machine.

    Raises `StorageEndpointMalformed`.
    """
    settings = {name: environment[name] for name in VARIABLES[url.provider] if environment.get(name)}
    for name in _ENDPOINTS & settings.keys():
        if not _ENDPOINT.fullmatch(settings[name]):
            raise StorageEndpointMalformed(name, settings[name])
    return settings


def allows_http(settings: Mapping[str, str]) -> bool:
    """Return whether the store is reached without TLS: its endpoint says so."""
    return any(settings.get(name, "").lower().startswith("http://") for name in _ENDPOINTS) or _is_true(
        settings.get("AZURE_STORAGE_USE_EMULATOR")
    )


def spark_url(place: str, environment: Mapping[str, str]) -> str:
    """Return the URL by which Spark's file systems reach a place; a place that is on no object store as it is."""
    if not is_object_url(place):
        return place
    url = parse_object_url(place)
    path = f"/{url.path}" if url.path else ""
    match url.provider:
        case Provider.S3:
            return f"s3a://{url.bucket}{path}"
        case Provider.GCS:
            return f"gs://{url.bucket}{path}"
        case Provider.AZURE:
            account = url.account or environment.get("AZURE_STORAGE_ACCOUNT_NAME", "")
            if not account:
                raise StorageUrlMalformed(place, "it names no account, and AZURE_STORAGE_ACCOUNT_NAME is not set")
            return f"abfss://{url.bucket}@{account}.dfs.core.windows.net{path}"


def hadoop_settings(place: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the Hadoop settings with which Spark reaches a place as our client does; none for a local folder.

    Without keys in the environment, Hadoop's own search for credentials continues: roles, instance profiles. Source of
    the names: Hadoop's documentation of S3A and ABFS, and the Cloud Storage connector's.
    """
    if not is_object_url(place):
        return {}
    url = parse_object_url(place)
    match url.provider:
        case Provider.S3:
            return _s3a_settings(environment)
        case Provider.GCS:
            return _gcs_settings(environment)
        case Provider.AZURE:
            return _abfs_settings(url, environment)


def _s3a_settings(environment: Mapping[str, str]) -> dict[str, str]:
    prefix = "fs.s3a"
    found: dict[str, str] = {}
    endpoint = environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL")
    if endpoint:
        found[f"{prefix}.endpoint"] = endpoint
        found[f"{prefix}.connection.ssl.enabled"] = str(not endpoint.lower().startswith("http://")).lower()
    is_virtual = _is_true(environment.get("AWS_VIRTUAL_HOSTED_STYLE_REQUEST"))
    found[f"{prefix}.path.style.access"] = str(not is_virtual).lower()
    region = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")
    if region:
        found[f"{prefix}.endpoint.region"] = region
    found |= _s3a_credentials(environment)
    encryption = _ENCRYPTIONS.get(environment.get("AWS_SERVER_SIDE_ENCRYPTION", ""))
    if encryption is not None:
        found[f"{prefix}.encryption.algorithm"] = encryption
    if environment.get("AWS_SSE_KMS_KEY_ID"):
        found[f"{prefix}.encryption.key"] = environment["AWS_SSE_KMS_KEY_ID"]
    return found


def _s3a_credentials(environment: Mapping[str, str]) -> dict[str, str]:
    providers = "org.apache.hadoop.fs.s3a"
    setting = "fs.s3a.aws.credentials.provider"
    if _is_true(environment.get("AWS_SKIP_SIGNATURE")):
        return {setting: f"{providers}.AnonymousAWSCredentialsProvider"}
    key, secret = environment.get("AWS_ACCESS_KEY_ID"), environment.get("AWS_SECRET_ACCESS_KEY")
    if key and secret:
        keys = {"fs.s3a.access.key": key, "fs.s3a.secret.key": secret}
        if not environment.get("AWS_SESSION_TOKEN"):
            return keys | {setting: f"{providers}.SimpleAWSCredentialsProvider"}
        token = {"fs.s3a.session.token": environment["AWS_SESSION_TOKEN"]}
        return keys | token | {setting: f"{providers}.TemporaryAWSCredentialsProvider"}
    if environment.get("AWS_WEB_IDENTITY_TOKEN_FILE"):
        return {setting: "software.amazon.awssdk.auth.credentials.WebIdentityTokenFileCredentialsProvider"}
    return {}


def _gcs_settings(environment: Mapping[str, str]) -> dict[str, str]:
    found = {"fs.gs.impl": "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem"}
    if environment.get("GOOGLE_BASE_URL"):
        found["fs.gs.storage.root.url"] = environment["GOOGLE_BASE_URL"]
    file = environment.get("GOOGLE_SERVICE_ACCOUNT") or environment.get("GOOGLE_APPLICATION_CREDENTIALS")
    if _is_true(environment.get("GOOGLE_SKIP_SIGNATURE")):
        found["fs.gs.auth.type"] = "UNAUTHENTICATED"
    elif file:
        found |= {"fs.gs.auth.type": "SERVICE_ACCOUNT_JSON_KEYFILE", "fs.gs.auth.service.account.json.keyfile": file}
    return found


def _abfs_settings(url: ObjectUrl, environment: Mapping[str, str]) -> dict[str, str]:
    account = url.account or environment.get("AZURE_STORAGE_ACCOUNT_NAME", "")
    host = f"{account}.dfs.core.windows.net"
    if environment.get("AZURE_STORAGE_ACCOUNT_KEY"):
        return {f"fs.azure.account.key.{host}": environment["AZURE_STORAGE_ACCOUNT_KEY"]}
    if environment.get("AZURE_STORAGE_SAS_KEY"):
        return {
            f"fs.azure.account.auth.type.{host}": "SAS",
            f"fs.azure.sas.fixed.token.{host}": environment["AZURE_STORAGE_SAS_KEY"],
        }
    client, secret = environment.get("AZURE_STORAGE_CLIENT_ID"), environment.get("AZURE_STORAGE_CLIENT_SECRET")
    tenant = environment.get("AZURE_STORAGE_TENANT_ID")
    if client and secret and tenant:
        oauth = "fs.azure.account.oauth2"
        provider = "org.apache.hadoop.fs.azurebfs.oauth2.ClientCredsTokenProvider"
        return {
            f"fs.azure.account.auth.type.{host}": "OAuth",
            f"fs.azure.account.oauth.provider.type.{host}": provider,
            f"{oauth}.client.id.{host}": client,
            f"{oauth}.client.secret.{host}": secret,
            f"{oauth}.client.endpoint.{host}": f"https://login.microsoftonline.com/{tenant}/oauth2/token",
        }
    return {}


def _is_true(value: str | None) -> bool:
    return value is not None and value.lower() in _TRUE


_SCHEME = re.compile(r"([a-z][a-z0-9+.-]+):", re.IGNORECASE)


def require_place(place: str) -> None:
    """Require that a text is not empty. Raises `PlaceUnnamed`."""
    if not isinstance(place, str):
        raise PlaceUnnamed(repr(place), f"it is no text but of the type {type(place).__name__}")
    if not place.strip():
        raise PlaceUnnamed(repr(place), "it is empty")
    if "\0" in place:
        raise PlaceUnnamed(repr(place), "it has a NUL character")


def local_path(place: str) -> str | None:
    """Return the path of a path or `file:` URL, taken literally as in Spark (no %-escapes); None for other URLs."""
    scheme = _SCHEME.match(place)
    if scheme is None:
        return place
    if scheme[1].lower() != "file":
        return None
    return "/" + place[scheme.end() :].removeprefix("//").removeprefix("localhost").lstrip("/")


def absolute_lake(lake: str) -> str:
    """Return a lake's location as it is stored; creates nothing. Raises `PlaceUnnamed`, `StorageUrlMalformed`,
    `StorageSchemeUnsupported`.
    """
    folder = local_folder(lake)
    return str(folder) if folder is not None else str(parse_object_url(lake))


def local_folder(lake: str) -> Path | None:
    """Return the lake's local folder; None for another kind of URL. Raises `PlaceUnnamed`."""
    require_place(lake)
    path = local_path(lake)
    return Path(path).expanduser().absolute() if path is not None else None
