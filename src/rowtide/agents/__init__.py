"""Jobs that run until stopped: the loop, retry and back-off exist here, once."""
