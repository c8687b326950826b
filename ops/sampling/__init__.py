"""Picking edges, walking, drawing subgraphs, renumbering what was found."""
