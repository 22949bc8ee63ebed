"""rowtide as services of systemd: unit files, and what a service reports to its manager."""
