"""What can name a publication."""

from __future__ import annotations

from typing import Any

import pytest

from rowtide.core.errors import NameUnfit
from rowtide.core.names import require_name


@pytest.mark.parametrize("name", ["shop", "ein Büro", "東京 🗼", "x" * 128, "-", '"', "e\u0301"])
def test_a_name_is_a_line_of_text(name: str) -> None:
    require_name("publication", name)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "it is empty"),
        (" ", "it is empty"),
        ("a\nb", "control characters"),
        ("a\x1b[31m", "control characters"),
        ("a\0", "control characters"),
        ("\udc80", "control characters"),
        ("x" * 129, "more than 128"),
        (None, "of the type NoneType"),
        (5, "of the type int"),
        (b"shop", "of the type bytes"),
    ],
)
def test_what_cannot_be_typed_again_is_no_name(name: Any, reason: str) -> None:
    with pytest.raises(NameUnfit, match=reason):
        require_name("publication", name)
