"""Finding owners and cutting graphs into parts."""
