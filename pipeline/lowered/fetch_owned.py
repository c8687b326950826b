"""Fetching node features where they are owned, for rows to be exchanged behind it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from headrace.pipeline.data.place import CPU, Place
from headrace.pipeline.lowered.fetch_stage import FetchStage
from headrace.pipeline.plan.settings import RunSettings
from headrace.pipeline.plan.stage import Runner
from headrace.pipeline.storage.wanted import Wanted


@dataclass(frozen=True, eq=False, repr=False)
class FetchOwned(FetchStage):
    """Read node features of the nodes that this rank owns, between an exchange of ids and one of rows.

    The passes ``cooperative`` and ``fetch_at_owners`` make it from ``fetch_feature``.

    Parameters
    ----------
    wanted
        Node features.
    """

    name: ClassVar[str] = "fetch_owned"
    lowered: ClassVar[bool] = True
    reads_at: ClassVar[Place | None] = CPU

    wanted: Wanted

    @property
    def reads(self) -> frozenset[str]:
        return self.wanted.reads | {"exchanges"}

    def runner(self, settings: RunSettings) -> Runner:
        return self.fetching_here(settings)
