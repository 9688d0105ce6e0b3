"""A real collection: one file that says everything, a client that randomises, an aggregator that counts."""
