"""Stages of GPUs: rows and adjacency that a GPU reads in memory of the host, and work on side streams."""
