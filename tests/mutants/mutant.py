"""One small fault put into the code on purpose, and the test that has to notice it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


class StaleError(Exception):
    """A mutant no longer fits the code it changes."""


@dataclass(frozen=True)
class Mutant:
    """In `file`, replace `this` by `that`.

    Parameters
    ----------
    file
        Relative to the root of the repository.
    this
        What is replaced; it is there exactly once. Short, so that changes beside it do not matter.
    that
        What stands there instead.
    test
        The pytest node that fails then, of a test that passes without the change.
    equivalent
        Why no test can fail, where that is so: the mutant is then there to survive.
    hangs
        Whether the test never ends with the fault. Of others, a test that runs out of time has told nothing: the
        machine may have been busy.
    """

    file: str
    this: str
    that: str
    test: str
    equivalent: str = ""
    hangs: bool = False

    @property
    def is_native(self) -> bool:
        """Whether the compiled module has to be built anew."""
        return self.file.startswith("ops/native/")

    def __str__(self) -> str:
        this, that = (" ".join(text.split()) for text in (self.this, self.that))
        return f"{self.file}: {this} -> {that or 'nothing'}"

    def changed(self, text: str) -> str:
        """Return the file's text with the fault in it.

        Raises
        ------
        StaleError
            If what is to be replaced is not there, or several times.
        """
        count = text.count(self.this)
        if count != 1:
            raise StaleError(f"{self}\n  expected {self.this!r} once in {self.file}, found it {count} times")
        return text.replace(self.this, self.that)

    def misfit(self, root: Path) -> str:
        """Return why the mutant cannot be applied or tested; nothing if it can."""
        path = root / self.file
        if not path.is_file():
            return f"{self}\n  {self.file} does not exist"
        try:
            self.changed(path.read_text(encoding="utf-8"))
        except StaleError as error:
            return str(error)
        file, _, name = self.test.partition("::")
        test = root / file
        if not test.is_file() or f"def {name.partition('[')[0]}(" not in test.read_text(encoding="utf-8"):
            return f"{self}\n  there is no test {self.test}"
        return ""
