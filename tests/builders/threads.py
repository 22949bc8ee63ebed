"""Work that is done in a thread while a test does something else."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def in_thread(work: Callable[[threading.Event], None]) -> Iterator[None]:
    """Do something until the block ends: `work` is given the event that is set then, and waited for."""
    is_over = threading.Event()
    thread = threading.Thread(target=work, args=(is_over,))
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
