"""Sums, means, extremes and attention over the in-edges of each destination, forward and backward."""
