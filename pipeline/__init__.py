"""Plans: stages that describe, passes that rewrite, a loader that runs.

Read in this order: ``stage`` (what a stage is), ``plan`` (helpers on chains), ``stages/`` (one a file), ``passes/``
(one a file, in the order of ``passes/__init__``), ``verify`` and ``rewriting`` (passes applied and checked), ``lower``
(plan to nodes), ``nodes`` and ``prefetch_node`` (what runs), ``loader`` (epochs, resume, stats). ``graph``,
``features``, ``block`` and ``batch`` are the data. ``write_shards`` and ``load_shards`` keep it on disk, and
``command_line`` does so from the shell.
"""
