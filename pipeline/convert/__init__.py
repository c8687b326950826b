"""From tables on disk to a data set, in bounded memory: what there is (`description`), and the passes over it."""
