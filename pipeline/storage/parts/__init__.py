"""The parts of a graph on disk, each in a data-set folder of its own."""
