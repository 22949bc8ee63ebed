"""What the lake answers: changes, net changes, the functions of Spark SQL."""
