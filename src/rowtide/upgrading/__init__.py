"""`rowtide upgrade`: migrate what a database, its log store, its lake and its targets have stored."""
