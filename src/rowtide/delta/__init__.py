"""Delta tables read and written by their protocol, without a JVM (docs/decisions/0008)."""
