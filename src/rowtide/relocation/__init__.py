"""Copy a lake and its log store to another place, and move them there."""
