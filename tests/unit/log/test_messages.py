from __future__ import annotations

from builders.log.log_messages import messages
from rowtide.log.messages import Messages


def test_messages_are_a_sequence_of_bytes() -> None:
    log = messages("B r C10")

    assert list(log) == [b"B", b"r", b"C10"]
    assert (len(log), log[-1], log[0]) == (3, b"C10", b"B")
    assert (list(log.sizes()), log.size) == ([1, 1, 3], 5)


def test_a_slice_shares_the_buffer() -> None:
    log = messages("B r C10 B")

    assert log[1:3] == messages("r C10")
    assert log[1:3].buffer is log.buffer


def test_a_copy_of_a_slice_has_only_its_own_bytes_and_grows() -> None:
    copied = messages("B rr C10 B")[1:3].copy()
    copied.append(b"x")

    assert copied == messages("rr C10 x")
    assert bytes(copied.buffer) == b"rrC10x"


def test_an_empty_slice_can_be_copied() -> None:
    assert messages("B r")[2:].copy() == Messages()
