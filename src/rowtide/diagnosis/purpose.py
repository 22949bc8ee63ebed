"""What the check of a role found, and who can run what it proposes. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field, replace

from rowtide.core.values import frozen
from rowtide.diagnosis.result import Advice, CheckResult, ShellCommand


@frozen
class Checked:
    """What the check of a database found.

    `others` are the roles, which that of the connection is no member of, that alone can run rowtide's commands here, by
    the commands' first word. `work` is how what rowtide does there works, as `health` says it.
    """

    results: tuple[CheckResult, ...]
    others: Mapping[str, str] = field(default_factory=dict)
    work: tuple[CheckResult, ...] = ()


def address(result: CheckResult, others: Mapping[str, str]) -> CheckResult:
    """Return a result whose remediation names who has to run it, where the role of the connection would in vain.

    Advice that begins with "Let" or "Ask" names somebody already.
    """
    words = _COMMAND.findall(str(result.remediation or ""))
    owner = next((others[word] for word in words if word in others), None)
    if owner is None:
        return result
    match result.remediation:
        case ShellCommand(line):
            return replace(result, remediation=Advice(f"Let {owner} run `{line}`."))
        case Advice(text) if not text.startswith(("Let ", "Ask ")):
            return replace(result, remediation=Advice(f"Let {owner} do it: {text}"))
        case _:
            return result


_COMMAND = re.compile(r"(?:^|`|&& )rowtide (\w+)")
