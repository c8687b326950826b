"""Plans: stages that describe, passes that rewrite, a loader that runs.

Read in this order: ``plan/stage`` and ``plan/plan`` (stages and chains of them), ``stages/`` (one a file),
``plan/rules`` and ``plan/rewriting`` (how passes rewrite), ``passes/`` (one a file, in the order of
``passes/__init__``), ``run/lower`` (plan to nodes), ``run/nodes`` and ``run/prefetch_node`` (what runs), ``run/loader``
(epochs, resume, stats). ``data/`` has graph, block and batch, ``storage/`` the sources of features and their files.
"""
