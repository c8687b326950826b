"""What a part of shards says of itself: ``part.json``, which part it is and the fingerprints of its files.

``meta.json`` keeps a fingerprint of each ``part.json``, so that a part is bound to the write it came from, and every
array to its part. Arrays above 4 MiB are sampled (`headrace.pipeline.data.digest`): that tells parts and writes apart
for the price of some thousand rows, it does not prove that every byte is right.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from headrace.ops.errors import InputError
from headrace.pipeline.data.digest import sampled_digest
from headrace.pipeline.storage.regular_file import parse_json, read_limited
from headrace.pipeline.storage.shard_meta import write_json

PART = "part.json"


@dataclass(frozen=True)
class PartMeta:
    """Which part a folder holds, and the fingerprints of its files by name."""

    part: int
    files: dict[str, str]

    def write(self, folder: Path) -> str:
        """Write ``part.json``, and return its fingerprint."""
        write_json(folder / PART, {"part": self.part, "files": self.files})
        return _digest((folder / PART).read_bytes())

    @staticmethod
    def read(folder: Path, part: int, digest: str) -> PartMeta:
        """Read ``part.json``.

        Raises
        ------
        InputError
            If there is none, it is of another part or of another write than `digest`, or it is damaged.
        """
        path = folder / PART
        try:
            data = read_limited(path)
            fields = parse_json(data)
            found, files = fields["part"], dict(fields["files"])
        except InputError:
            raise
        except OSError as cause:
            raise InputError(
                f"load_shards: expected {path}, which lists what the folder holds, but it cannot be read "
                f"({cause.strerror}); copy the part once more"
            ) from cause
        except (KeyError, TypeError, ValueError, RecursionError) as cause:
            raise InputError(f"load_shards: {path} is damaged ({cause!r}); copy the part once more") from cause
        if found != part:
            raise InputError(
                f"load_shards: expected part {part} in {folder}, got part {str(found)[:20]}, by {PART}; copy each "
                "part to the folder of its own number"
            )
        if _digest(data) != digest:
            raise InputError(
                f"load_shards: expected {path} to be of the same write_shards as meta.json, got that of another; copy "
                "all files of one write"
            )
        return PartMeta(part, files)


def digest_of_array(name: str, array: Tensor) -> str:
    """Return the fingerprint of a file's array; large ones are sampled."""
    return sampled_digest([(name, array)])


def check_array(path: Path, array: Tensor, digest: str | None) -> None:
    """Refuse an array that is not the one that was written to a file.

    Raises
    ------
    InputError
        If the fingerprint is another, or the file was never written.
    """
    if digest is None:
        raise InputError(f"load_shards: expected no {path.name} here, got {path}; copy all files of one write")
    if digest_of_array(path.name, array) != digest:
        raise InputError(
            f"load_shards: expected in {path} what write_shards wrote there, got something else: it is of another part "
            "or another write, or damaged; copy it once more"
        )


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]
