"""The form of a file's views, guards and triggers, and what opening a file does with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from rowtide.merge.nodes.connecting import open_node, open_subscriber
from rowtide.merge.nodes.sqlite.metadata import node_form


def test_the_form_is_the_digest_of_its_statements() -> None:
    assert node_form.digest_form() == node_form.FORM_DIGEST


def test_opening_a_file_builds_no_documented_view(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"sqlite:///{tmp_path / 'device.db'}"
    with open_subscriber(url) as node:
        node.tables.prepare()
    built: list[object] = []
    monkeypatch.setattr(node_form, "documented_queries", built.append)
    with open_node(url) as node:
        assert node.tables.is_prepared()
    assert built == []
