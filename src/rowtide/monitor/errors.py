"""The monitor's errors: 51xx."""

from __future__ import annotations

from rowtide.core.errors import RowtideError, numbered


@numbered
class CaptureStopped(RowtideError):
    """`rowtide check` found what stops capture, or would; its findings are listed before this line."""

    number = 5101
    fact = "capture is stopped by {subjects}"
    hint = "Each is listed with what mends it; then run `rowtide check` again."
    subjects: str
