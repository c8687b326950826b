"""What a conversion has found and done, or would do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Report:
    """Types, counts and costs of a conversion.

    Parameters
    ----------
    folder
        The data set.
    nodes, edges
        Numbers by type, in the order of ids; None where only reading tells.
    arrays
        By name, what the data set has, such as ``"float32[100, 16]"``.
    counts
        What was left out, added or filled in, by a text such as "edges of user buys item: loops left out".
    memory
        Bytes of memory that the conversion was given.
    disk
        Bytes of the data set; of a dry run an estimate of these and of files between passes, None where unknown.
    passes
        What is done in turn.
    dry_run
        Whether nothing was written.
    """

    folder: Path
    nodes: Mapping[str, int | None]
    edges: Mapping[Any, int | None]
    arrays: Mapping[str, str] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    memory: int = 0
    disk: int | None = None
    passes: tuple[str, ...] = ()
    dry_run: bool = False

    def __str__(self) -> str:
        lines = [f"{self.folder}: {'would be' if self.dry_run else 'is'} a data set of"]
        lines += [f"  nodes of type {name}: {_number(count)}" for name, count in self.nodes.items()]
        lines += [
            f"  edges{'' if name is None else f' of type {type_text(name)}'}: {_number(count)}"
            for name, count in self.edges.items()
        ]
        lines += [f"  {name}: {kind}" for name, kind in self.arrays.items()]
        lines += [f"  {what}: {count:,}" for what, count in self.counts.items()]
        what = "bytes on the disk while it runs" if self.dry_run else "bytes"
        lines.append(f"  {_number(self.disk)} {what}, at most {self.memory:,} bytes of memory")
        if self.dry_run:
            lines += ["  passes:", *(f"    {one}" for one in self.passes)]
        return "\n".join(lines)


def type_text(name: Any) -> str:
    """Return a type as a text."""
    return name if isinstance(name, str) else " ".join(name)


def _number(count: int | None) -> str:
    return "unknown before they are read:" if count is None else f"{count:,}"
