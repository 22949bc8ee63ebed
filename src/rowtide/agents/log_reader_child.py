"""Start of the log reader's process: `python -m rowtide.agents.log_reader_child`; see `log_reader_process`.

What reads the log is imported once pandas is hidden from the process.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from multiprocessing.connection import Connection

from rowtide.core.exports import hide_pandas

if __name__ == "__main__":
    hide_pandas()
    from rowtide.agents.log_reading import read_log

    with suppress(EOFError):
        read_log(Connection(int(sys.argv[1])))
    # Everything is closed: threads of libraries have nothing left to finish, and the parent need not wait for them.
    os._exit(0)
