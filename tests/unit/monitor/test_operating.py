"""Who operates: only where everybody is asked who they are, and somebody is an operator."""

from __future__ import annotations

import pytest

from rowtide.monitor.databases import OperatorUrls
from rowtide.monitor.errors import ActionsOpen, OperatorUrlMissing
from rowtide.monitor.inboxes import ReadInboxes
from rowtide.monitor.web.access import ANYBODY, NOBODY_OPERATES, OPEN, Access, Operating, Role, Viewer, require_asked

ACTING = Operating(urls={"shop": "postgresql://anna@db1/shop"}, allows_actions=True, shows_values=True)
ANNA, BEN = Viewer("anna", Role.OPERATOR), Viewer("ben")


@pytest.mark.parametrize(
    ("access", "reason"),
    [
        (OPEN, "any local user may open its port"),
        (Access(operators=frozenset({"anna"})), "any local user may open its port"),
        (Access(read_tokens=dict), "nobody is an operator"),
    ],
)
def test_actions_want_tokens_and_an_operator(access: Access, reason: str) -> None:
    with pytest.raises(ActionsOpen, match=reason):
        require_asked(access, ACTING)
    require_asked(access, NOBODY_OPERATES)


def test_actions_are_allowed_with_a_token_or_a_proxy() -> None:
    require_asked(Access(read_tokens=dict, operators=frozenset({"anna"})), ACTING)
    require_asked(Access(user_header="X-User", operators=frozenset({"anna"})), ACTING)


def test_only_operators_act_and_see_values() -> None:
    assert [ACTING.may_act(one) for one in (ANNA, BEN, ANYBODY, None)] == [True, False, False, False]
    assert [ACTING.sees_values(one) for one in (ANNA, BEN, ANYBODY, None)] == [True, False, False, False]
    assert not NOBODY_OPERATES.may_act(ANNA)
    assert not NOBODY_OPERATES.sees_values(ANNA)


def test_urls_of_operators_may_change() -> None:
    """A database that is removed from the file is not acted on, and its conflicts are not read."""
    urls = OperatorUrls({"shop": "postgresql://anna@db1/shop"})
    operating, inboxes = Operating(urls=urls), ReadInboxes(urls)
    urls.replace({"crm": "postgresql://anna@db1/crm"})
    assert operating.get_url("crm") == "postgresql://anna@db1/crm"
    assert inboxes.read("shop") is None
    with pytest.raises(OperatorUrlMissing):
        operating.get_url("shop")
    with pytest.raises(OperatorUrlMissing):
        inboxes.show("shop", "c1")


def test_a_database_without_their_url_is_named() -> None:
    assert ACTING.get_url("shop") == "postgresql://anna@db1/shop"
    with pytest.raises(OperatorUrlMissing, match='"crm"'):
        ACTING.get_url("crm")
