"""Following: the published changes of several instances as one stream of events, without a JVM."""
