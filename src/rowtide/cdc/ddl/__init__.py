"""Tables that are altered while they are captured."""
