"""Who owns which node or edge, and how good that is."""
