"""All entries: `native.` those of the compiled module, `public.` those of headrace.ops."""

from __future__ import annotations

from typing import Final

from fuzz import (
    compactor,
    join_hops,
    native,
    native_labor,
    native_laws,
    native_partition,
    native_rows,
    public,
    public_laws,
)
from fuzz.entry import Entry

NATIVE: Final = {
    **native.ENTRIES,
    **native_labor.ENTRIES,
    **native_laws.ENTRIES,
    **native_partition.ENTRIES,
    **native_rows.ENTRIES,
    **compactor.NATIVE_ENTRIES,
    **join_hops.NATIVE_ENTRIES,
}
PUBLIC: Final = {**public.ENTRIES, **public_laws.ENTRIES, **compactor.PUBLIC_ENTRIES, **join_hops.PUBLIC_ENTRIES}
ENTRIES: Final[dict[str, Entry]] = {
    **{f"native.{name}": entry for name, entry in NATIVE.items()},
    **{f"public.{name}": entry for name, entry in PUBLIC.items()},
}
