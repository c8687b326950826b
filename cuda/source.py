"""One text of all that a kernel's file includes, so that what is compiled, and kept, is known by that text alone."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

KERNELS = Path(__file__).resolve().parent / "kernels"
#: Kernels share the headers of random numbers with those of the CPU.
NATIVE = KERNELS.parent.parent / "ops" / "native"

_INCLUDE = re.compile(r'\s*#include\s+(["<])([^">]+)[">]\s*$')


@cache
def flattened(file: str) -> str:
    """Return the text of ``kernels/<file>`` with that of all it includes, each once.

    Lines are marked, so that compilers name the files that they came from. Of the standard library there is what
    ``kernels/std`` has: CUDA's compiler for run time brings none.

    Raises
    ------
    FileNotFoundError
        For a file that neither folder has.
    """
    lines: list[str] = []
    _append(_find(file, ""), set(), lines)
    return "\n".join(lines) + "\n"


def _append(path: Path, seen: set[Path], lines: list[str]) -> None:
    seen.add(path)
    name = path.name if path.parent.name == "std" else str(path.relative_to(path.parents[1]))
    lines.append(f'#line 1 "{name}"')
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        include = _INCLUDE.match(line)
        if include is None:
            lines.append("" if line.strip() == "#pragma once" else line)
            continue
        inner = _find(include[2], include[1])
        if inner not in seen:
            _append(inner, seen, lines)
            lines.append(f'#line {number + 1} "{name}"')
        else:
            lines.append("")


def _find(file: str, bracket: str) -> Path:
    folders = (KERNELS / "std",) if bracket == "<" else (KERNELS, NATIVE)
    for folder in folders:
        if (folder / file).is_file():
            return folder / file
    raise FileNotFoundError(f"{file} is in none of {', '.join(map(str, folders))}")
