"""Jobs that run until stopped: loop, retry and back-off are implemented here only."""
