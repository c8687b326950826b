"""Text with lone surrogates: Python has them for the bytes of paths that are no UTF-8, and no file or terminal does."""

from __future__ import annotations


def utf8(text: str) -> bytes:
    """Return a name as bytes for a digest, surrogates included: different names have different bytes."""
    return text.encode("utf-8", "surrogatepass")


def printable(text: str) -> str:
    """Return a text with its surrogates escaped, as `repr` does."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def as_file_name(text: str, safe: str = "") -> str:
    """Return a name as part of the name of a file: characters of paths, and those beyond ASCII, are escaped."""
    from urllib.parse import quote

    return quote(text, safe=safe, errors="surrogatepass")
