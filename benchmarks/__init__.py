"""Speed, measured against peers in the same run on the same log."""
