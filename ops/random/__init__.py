"""Streams of random numbers, and what is drawn from them without a graph."""
