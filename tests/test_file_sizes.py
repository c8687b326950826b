"""One idea a file: no file of code is longer than 400 lines."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("pipeline", "ops", "cuda", "tests", "bench", "examples")
SUFFIXES = {".py", ".pyi", ".cpp", ".hpp", ".cu", ".cuh"}
MOST_LINES = 400

#: Longer ones, each with its reason.
EXCEPTIONS: dict[str, str] = {
    "ops/_native.pyi": "there is one compiled module, and its stub lists what it has",
    "pipeline/plan/verb_signatures.pyi": "it is written, and lists all verbs",
}


def files() -> list[Path]:
    return [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in SUFFIXES]


def test_no_file_is_longer_than_it_can_be_read_at_once():
    sizes = {path.relative_to(ROOT).as_posix(): len(path.read_text(encoding="utf-8").splitlines()) for path in files()}
    assert len(sizes) > 300
    longer = {name: size for name, size in sizes.items() if size > MOST_LINES and name not in EXCEPTIONS}
    assert not longer, f"split them by subject: {longer}"
    assert not [name for name in EXCEPTIONS if sizes.get(name, 0) <= MOST_LINES], "exceptions that are none any more"
