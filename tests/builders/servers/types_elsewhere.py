"""A type whose operators are in schema `public`, as citext's are: the embedded server has no extensions."""

from __future__ import annotations

_OPERATORS = {"eq": "=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_COMPARING = (
    "create function ci_cmp(ci, ci) returns integer language sql immutable strict as "
    "'select pg_catalog.bttextcmp(pg_catalog.lower($1::text), pg_catalog.lower($2::text))'"
)
_INDEXED = (
    "create operator class ci_ops default for type ci using btree as operator 1 <, operator 2 <=, operator 3 =, "
    "operator 4 >=, operator 5 >, function 1 ci_cmp(ci, ci)"
)
CITEXT = [
    "create type ci",
    "create function ci_in(cstring) returns ci language internal immutable strict as 'textin'",
    "create function ci_out(ci) returns cstring language internal immutable strict as 'textout'",
    "create type ci (input = ci_in, output = ci_out, like = text, category = 'S')",
    "create cast (ci as text) without function as implicit",
    "create cast (text as ci) without function as assignment",
    *(
        # Not in SQL, which the planner would put in the operator's place: no index has such an expression.
        f"create function ci_{name}(ci, ci) returns boolean language plpgsql immutable strict as "
        f"'begin return pg_catalog.lower($1::text) operator(pg_catalog.{sign}) pg_catalog.lower($2::text); end'"
        for name, sign in _OPERATORS.items()
    ),
    *(
        f"create operator {sign} (leftarg = ci, rightarg = ci, function = ci_{name})"
        for name, sign in _OPERATORS.items()
    ),
    _COMPARING,
    _INDEXED,
]
