"""`rowtide replication run`: which subscriptions a process delivers, and the agent of each."""
