"""What a node knows of its merges: listings, past synchronisations, comparisons of rows. Changes no row."""
