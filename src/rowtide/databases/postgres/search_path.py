"""The search_path of rowtide's sessions, and the one that a role has of its own (docs/decisions/0028)."""

from __future__ import annotations

PATH = "pg_catalog, pg_temp"
"""The search_path of all sessions: no other schema's functions, operators, types or tables hide the server's."""

PIN_PATH = f"set search_path = {PATH}"
"""The statement that sets the path of rowtide's sessions, under whatever path holds."""

OWN_PATH = f"set local search_path = {PATH}"
"""The statement that returns to the path of rowtide's sessions within a transaction."""

USERS_PATH = "set local search_path to default"
"""The statement that sets the role's own search_path for the rest of a transaction.

It is the last one before a commit which may run deferred triggers: they find by it what they name without a schema.
Code that runs in the session cannot change the default, as it could a setting of rowtide's.
Other code of users runs in functions that have this path attached (see `owners`), never in a statement of rowtide's.
"""

USERS_SCHEMAS = "pg_catalog.current_setting('rowtide.schemas')::pg_catalog.name[]"
"""SQL expression of the schemas in the role's own search_path, in order; users' unqualified names are found in them."""
