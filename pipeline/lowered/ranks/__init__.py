"""Stages of several ranks: finders of edges that communicate, exchanges of ids and rows, and fetches at owners."""
