"""Configuration files that a command trusts."""

from __future__ import annotations

from pathlib import Path

from rowtide.configuration.parsing import parse_configuration
from rowtide.configuration.settings import Configuration

OPTIONS = ("db", "group", "retention", "max-latency", "spark-conf")
GATEWAY_OPTIONS = ("listen", "max-rows")


def write_file(folder: Path, text: str) -> Path:
    """Write a configuration file that nobody else may change; return its path."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / "rowtide.toml"
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)
    return path


def write_secret(path: Path, secret: str | bytes) -> Path:
    """Write a file that only its owner may read, in place of the one that is there; return its path."""
    replacement = path.with_name(f"{path.name}.new")
    replacement.touch(mode=0o600)
    replacement.write_bytes(secret if isinstance(secret, bytes) else secret.encode())
    return replacement.rename(path)


def parse(text: str) -> Configuration:
    """Return what a file says."""
    return parse_configuration(text, "/etc/rowtide/rowtide.toml", "--config", OPTIONS, GATEWAY_OPTIONS)
