"""Names with characters that not every file or terminal has.

Python has lone surrogates for the bytes of paths that are no UTF-8; UTF-8 has none, and some terminals ASCII alone.
"""

from __future__ import annotations

import sys
from typing import Any


def utf8(text: str) -> bytes:
    """Return a name as bytes for a digest, surrogates included: different names have different bytes."""
    return text.encode("utf-8", "surrogatepass")


def in_utf8(text: str) -> str:
    """Return a text with its surrogates escaped, as `repr` does."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def printable(text: str) -> str:
    """Return a text with what UTF-8 or standard output lacks escaped: `print` then never fails."""
    encoding = getattr(sys.stdout, "encoding", None)
    try:
        text.encode(encoding if isinstance(encoding, str) else "utf-8")
    except UnicodeEncodeError as error:
        return text.encode(error.encoding, "backslashreplace").decode(error.encoding)
    except LookupError:  # of a stream of the user's own
        return in_utf8(text)
    return text


def print_anything(stream: Any) -> None:
    """Let a text stream escape what its encoding lacks, if it is one of Python's."""
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="backslashreplace")


def as_file_name(text: str, safe: str = "") -> str:
    """Return a name as part of the name of a file: characters of paths, and those beyond ASCII, are escaped."""
    from urllib.parse import quote

    return quote(text, safe=safe, errors="surrogatepass")
