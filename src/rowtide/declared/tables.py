"""Names of tables as a file has them: as SQL writes them, quoted where that is needed. Pure."""

from __future__ import annotations

import re

_BARE = re.compile(r"[a-z_][a-z0-9_$]*")
_PART = re.compile(r'"((?:[^"]|"")+)"|([^".]+)')


def spell_table(*parts: str) -> str:
    """Return a name of its parts, schema first."""
    return ".".join(part if _BARE.fullmatch(part) else '"' + part.replace('"', '""') + '"' for part in parts)


def split_table(name: str) -> tuple[str, ...]:
    """Return the parts of a name that `spell_table` wrote."""
    return tuple(bare or quoted.replace('""', '"') for quoted, bare in _PART.findall(name))
