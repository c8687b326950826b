"""A part of the benchmark of tiers, run by itself."""

from __future__ import annotations

from types import ModuleType

from harness import arguments, describe_machine, print_table, write_json


def run_alone(part: ModuleType, *, rounds: int = 15) -> None:
    """Measure what a part measures, with its options, and print, write and draw it."""
    parser = arguments(part.__doc__ or "", rounds=rounds)
    part.add_options(parser)
    options = parser.parse_args()
    print(describe_machine(["headrace", "torch"]))
    records = part.run(options)
    print_table(records)
    write_json(options.json, records)
    if options.plot is not None:
        part.draw(records, options.plot.parent)
