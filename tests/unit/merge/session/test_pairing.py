"""Whether two ends may synchronise, as far as what is known of them says it."""

from __future__ import annotations

import pytest

from rowtide.merge.errors.nodes import NodeCopied
from rowtide.merge.nodes.node_tables import Original
from rowtide.merge.session.pairing import require_original_of

HERE, ELSEWHERE = (Original("shop_copy", "shop", is_here=is_here) for is_here in (True, False))


def test_a_copy_of_a_database_that_exists_is_refused() -> None:
    with pytest.raises(NodeCopied, match=r"shop_copy .*\bshop\b"):
        require_original_of(HERE)


def test_a_copy_from_another_server_may_be_refused() -> None:
    require_original_of(ELSEWHERE)
    with pytest.raises(NodeCopied):
        require_original_of(ELSEWHERE, is_sure=False)


@pytest.mark.parametrize("is_sure", [True, False])
def test_a_database_without_an_original_is_one(*, is_sure: bool) -> None:
    require_original_of(None, is_sure=is_sure)
