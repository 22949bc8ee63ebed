"""The form of a node's views and functions."""

from __future__ import annotations

from rowtide.merge.nodes.postgres.metadata import node_form


def test_the_form_is_the_digest_of_its_statements() -> None:
    assert node_form.digest_form() == node_form.OWN_FORM
