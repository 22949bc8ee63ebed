"""Who can run what a check proposes. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from rowtide.findings.finding import Advice, Command, Finding


@dataclass(frozen=True, slots=True)
class Checked:
    """What the check of a database found.

    `others` are the roles, which that of the connection is no member of, that alone can run rowtide's commands here, by
    the commands' first word.
    """

    findings: tuple[Finding, ...]
    others: Mapping[str, str] = field(default_factory=dict)


def address(finding: Finding, others: Mapping[str, str]) -> Finding:
    """Return a finding whose remedy names who has to run it, where the role of the connection would in vain.

    Advice that begins with "Let" or "Ask" names somebody already.
    """
    words = _COMMAND.findall(str(finding.mend or ""))
    owner = next((others[word] for word in words if word in others), None)
    if owner is None:
        return finding
    match finding.mend:
        case Command(line):
            return replace(finding, mend=Advice(f"Let {owner} run `{line}`."))
        case Advice(text) if not text.startswith(("Let ", "Ask ")):
            return replace(finding, mend=Advice(f"Let {owner} do it: {text}"))
        case _:
            return finding


_COMMAND = re.compile(r"(?:^|`|&& )rowtide (\w+)")
