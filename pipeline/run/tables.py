"""What a loader has tables and copies of, compared when an iteration begins; tables also when it ends."""

from __future__ import annotations

from collections.abc import Callable

from headrace.ops.errors import InputError
from headrace.pipeline.plan.checks import tables_of
from headrace.pipeline.plan.rewriting import Rewriting


class Tables:
    """The arrays of users of which stages have tables, such as the times that rows are sorted by, and features.

    Torch counts what it writes, and each batch is checked for that; all other writes are seen here. An epoch in which
    one was made had old values and new ones, so it is refused at its end. What torch has written by then came behind
    the last batch, and is refused when the next epoch begins.
    """

    def __init__(self, rewriting: Rewriting) -> None:
        stages = *rewriting.plan.stages, *rewriting.final.stages
        self._seen = tables_of(stages)
        wants = [stage.wants for stage in stages]
        sources = [source for wanted in wants if wanted is not None for source in wanted.sources()]
        self._sources = tuple({id(source): source for source in sources}.values())

    def check(self) -> None:
        """Refuse tables of which one was written.

        Raises
        ------
        InputError
            Or a subclass, saying which.
        """
        for one in self._seen:
            one.check()

    def check_begin(self, failed: Callable[[BaseException], None]) -> None:
        """Refuse to begin where one of them was written, and let features drop copies of rows that were.

        Parameters
        ----------
        failed
            Called with the error.

        Raises
        ------
        InputError
            Or a subclass, saying which.
        """
        try:
            self.check()
            for source in self._sources:
                source.check_copies()
        except InputError as error:
            failed(error)
            raise

    def check_end(self) -> None:
        """Refuse an epoch during which one of them was written, past torch's count.

        Raises
        ------
        InputError
            Or a subclass, saying which.
        """
        for one in self._seen:
            if not one.is_counted_as_written:
                one.check()
