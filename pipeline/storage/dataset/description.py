"""Files of JSON that describe a folder: of which format and version they are, read field by field, and written."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from headrace.ops.errors import InputError
from headrace.pipeline.data.written_file import written_file
from headrace.pipeline.storage.dataset.decode import decode
from headrace.pipeline.storage.opened_files import MOST_JSON_BYTES, parse_json, read_limited

T = TypeVar("T")


@dataclass(frozen=True)
class Format:
    """A format of folders, the file that describes one, and how a folder of it is made.

    Attributes
    ----------
    file, name
        The file, and what its field ``format`` says.
    version
        The newest one, and the only one that is read.
    remedy, anew
        What to name, and what to do with a folder of another version.
    copy, documented
        What to do with a file that somebody damaged, and where the format is documented.
    """

    file: str
    name: str
    version: int
    remedy: str
    anew: str
    copy: str
    documented: str

    def read(
        self, kind: type[T], folder: Path, check: Callable[[T], None], instead: Callable[[Path], str | None]
    ) -> tuple[T, str]:
        """Read the file of a folder as a dataclass, and check each field; return also the SHA-256 of what was read.

        Parameters
        ----------
        kind
            The dataclass; see `headrace.pipeline.storage.dataset.decode`.
        folder
            The folder.
        check
            Refuses fields that contradict each other.
        instead
            Returns what to do with a folder that has no such file, if something is known of it.

        Raises
        ------
        InputError
            If there is none, it is of another format or version, or a field is not as documented.
        """
        path = folder / self.file
        try:
            content = read_limited(path)
            fields = parse_json(content)
        except OSError as cause:
            is_absent = isinstance(cause, FileNotFoundError | NotADirectoryError)
            remedy = (instead(folder) if is_absent else None) or self.remedy
            raise InputError(
                f"open_dataset: expected a folder with {self.file}, but {path} cannot be read ({cause.strerror}); "
                f"{remedy}"
            ) from None
        except ValueError as cause:
            raise InputError(f"open_dataset: expected JSON in {path}, but {cause}; {self.copy}") from cause
        if fields.get("format") != self.name:
            raise InputError(
                f"open_dataset: expected the format {self.name!r} in {path}, got {str(fields.get('format'))[:40]!r}; "
                f"{self.remedy}"
            )
        if fields.get("version") != self.version or isinstance(fields.get("version"), bool):
            raise InputError(
                f"open_dataset: expected version {self.version} in {path}, got {str(fields.get('version'))[:40]}; "
                f"{self.anew}, or open it with the headrace that wrote it"
            )
        try:
            del fields["format"], fields["version"]
            value = decode(kind, fields)
            check(value)
        except (InputError, ValueError) as cause:
            raise InputError(f"open_dataset: {path}: {cause}; see {self.documented} for the format") from cause
        return value, hashlib.sha256(content).hexdigest()

    def write(self, folder: Path, value: Any) -> None:
        """Write a dataclass to the file of a folder.

        Raises
        ------
        InputError
            If the file is larger than what is read.
        """
        fields = {"format": self.name, "version": self.version, **asdict(value)}
        content = (json.dumps(fields, indent=1, allow_nan=False) + "\n").encode()
        if len(content) > MOST_JSON_BYTES:
            raise InputError(
                f"expected {self.file} of at most {MOST_JSON_BYTES:,} bytes, got {len(content):,}; keep long notes in "
                "a file beside it, and shorten names"
            )
        with written_file(folder / self.file) as write:
            write(content)
