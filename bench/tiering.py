"""Tiered features: scores, cache policies, dependent batches, places and disk, each of them a script of its own."""

from __future__ import annotations

import argparse
from types import ModuleType

import tiering_dependency
import tiering_disk
import tiering_places
import tiering_policies
import tiering_scores
from harness import Record, arguments, describe_machine, print_table, write_json

PARTS: dict[str, ModuleType] = {
    "scores": tiering_scores,
    "policies": tiering_policies,
    "dependency": tiering_dependency,
    "places": tiering_places,
    "disk": tiering_disk,
}


def main() -> None:
    parser = arguments(__doc__ or "", rounds=5)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    chosen = parser.parse_args()
    print(describe_machine(["headrace", "torch", "numpy", "scipy"]))
    records: list[Record] = []
    for name in chosen.parts:
        part = PARTS[name]
        own = argparse.ArgumentParser()
        own.add_argument("--rounds", type=int, default=chosen.rounds)
        part.add_options(own)
        found = part.run(own.parse_args([]))
        print_table(found)
        records += found
        if chosen.plot is not None:
            part.draw(found, chosen.plot.parent)
    write_json(chosen.json, records)


if __name__ == "__main__":
    main()
