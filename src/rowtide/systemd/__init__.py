"""rowtide as services of systemd: unit files, and what a service tells its manager."""
