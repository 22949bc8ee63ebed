"""The parts of a node, by subject; each kind of database has one implementation of each."""
