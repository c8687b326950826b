"""CUDA's functions, as far as pinning asks them, and as they answer."""

from __future__ import annotations

from types import SimpleNamespace


class CudaError(RuntimeError):
    def __init__(self, status):
        super().__init__(f"cudaError {status}")
        self.status = status


class Runtime:
    """Pins memory up to a limit, each byte once; what others have pinned, and what cannot be written, tests say."""

    CUDARuntimeError = CudaError

    def __init__(self, limit=1 << 20, read_only=(), by_others=(), same_addresses=(1, 1)):
        self.same_addresses = same_addresses  # of each device
        self.pinned, self.limit = {}, limit
        self.read_only, self.by_others = read_only, dict(by_others)
        self.flags = []

    def hostRegister(self, address, size, flags):  # noqa: N802 - CuPy's name
        assert flags & 3 == 3
        self.flags.append(flags)
        taken = {**self.pinned, **self.by_others}
        if any(address < other + length and other < address + size for other, length in taken.items()):
            raise CudaError(712)
        if size > self.limit or (address in self.read_only and not flags & 8):
            raise CudaError(2 if size > self.limit else 1)
        self.pinned[address] = size

    def getDeviceCount(self):  # noqa: N802
        return len(self.same_addresses)

    def deviceGetAttribute(self, attribute, device):  # noqa: N802
        assert attribute == 91
        return self.same_addresses[device]

    def hostUnregister(self, address):  # noqa: N802
        if address not in self.pinned:
            raise CudaError(713)
        del self.pinned[address]

    def pointerGetAttributes(self, address):  # noqa: N802
        taken = {**self.pinned, **self.by_others}
        return SimpleNamespace(type=int(any(other <= address < other + size for other, size in taken.items())))
