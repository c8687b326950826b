"""What runs a plan: lowering, the loader, running nodes, prefetch, statistics, shutdown."""

from headrace.pipeline.run import make_loader  # noqa: F401 - it adds `loader` and `explain` to plans
