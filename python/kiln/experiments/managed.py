"""Managed memory, which the driver moves page by page: for a row that shows why not."""

from __future__ import annotations

import ctypes
from typing import Any

import kiln

GLOBAL = 1  # CU_MEM_ATTACH_GLOBAL


class ManagedBytes:
    """`size` bytes that CPU and GPU both reach, as an array of the GPU; given back when it goes.

    Raises
    ------
    RuntimeError
        Where the driver has none, with its code.
    """

    def __init__(self, shape: tuple[int, int], device: str) -> None:
        kiln.empty(1, "u8", device)  # the driver's context is there
        self.driver, self.address = ctypes.CDLL("libcuda.so.1"), ctypes.c_uint64()
        context, ordinal = ctypes.c_void_p(), int(device.partition(":")[2] or 0)
        self._check(self.driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), ordinal))
        self._check(self.driver.cuCtxSetCurrent(context))
        size = ctypes.c_size_t(shape[0] * shape[1])
        self._check(self.driver.cuMemAllocManaged(ctypes.byref(self.address), size, GLOBAL))
        self.shape = shape

    @staticmethod
    def _check(code: int) -> None:
        if code:
            raise RuntimeError(f"managed memory: the driver's code {code}")

    def __del__(self) -> None:
        if getattr(self, "address", None):
            self.driver.cuMemFree_v2(self.address)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"shape": self.shape, "typestr": "|u1", "data": (self.address.value, False), "version": 3}

    def fill(self, source: Any) -> None:
        """By the CPU, so that the pages lie there."""
        ctypes.memmove(self.address.value, source.ctypes.data, source.nbytes)
