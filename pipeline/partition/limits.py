"""How many parts, nodes and seeds there may be."""

#: Of parts for ranks, and of those that a method makes of equal sizes.
MOST_PARTS = 1 << 16

#: Clusters that a table may have: their numbers are int32.
MOST_CLUSTERS = (1 << 31) - 1

#: More have no ids of 64 bits.
MOST_NODES = (1 << 62) - 1
MOST_SEED = (1 << 64) - 1
