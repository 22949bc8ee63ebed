"""Pages and JSON of the monitor, made of the views of its last polls."""
