"""The form of a node's views and functions."""

from __future__ import annotations

from rowtide.merge.nodes.postgres.metadata import completing


def test_the_form_is_the_digest_of_its_statements() -> None:
    assert completing.digest_form() == completing.OWN_FORM
