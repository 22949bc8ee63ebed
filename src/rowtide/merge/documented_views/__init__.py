"""The tables that SQL Server documents for merge, such as MSmerge_contents, as views."""
