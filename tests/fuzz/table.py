"""All entries: `native.` those of the compiled module, `public.` those of headrace.ops."""

from __future__ import annotations

from typing import Final

from fuzz import (
    aggregate,
    cache,
    compactor,
    fetched_rows,
    join_hops,
    links,
    native,
    native_disk,
    native_labor,
    native_laws,
    native_partition,
    native_rows,
    public,
    public_laws,
    spread,
    tiers,
    trees,
    typed,
)
from fuzz.entry import Entry

NATIVE: Final = {
    **native.ENTRIES,
    **native_disk.ENTRIES,
    **native_labor.ENTRIES,
    **native_laws.ENTRIES,
    **native_partition.ENTRIES,
    **native_rows.ENTRIES,
    **aggregate.NATIVE_ENTRIES,
    **cache.NATIVE_ENTRIES,
    **compactor.NATIVE_ENTRIES,
    **join_hops.NATIVE_ENTRIES,
    **links.NATIVE_ENTRIES,
    **spread.NATIVE_ENTRIES,
    **tiers.NATIVE_ENTRIES,
    **trees.NATIVE_ENTRIES,
    **typed.NATIVE_ENTRIES,
}
PUBLIC: Final = {
    **public.ENTRIES,
    **public_laws.ENTRIES,
    **aggregate.PUBLIC_ENTRIES,
    **cache.PUBLIC_ENTRIES,
    **compactor.PUBLIC_ENTRIES,
    **fetched_rows.PUBLIC_ENTRIES,
    **join_hops.PUBLIC_ENTRIES,
    **links.PUBLIC_ENTRIES,
    **spread.PUBLIC_ENTRIES,
    **tiers.PUBLIC_ENTRIES,
    **typed.PUBLIC_ENTRIES,
}
ENTRIES: Final[dict[str, Entry]] = {
    **{f"native.{name}": entry for name, entry in NATIVE.items()},
    **{f"public.{name}": entry for name, entry in PUBLIC.items()},
}
