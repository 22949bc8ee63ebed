"""Publications and their articles, created, changed and dropped at the publisher."""
