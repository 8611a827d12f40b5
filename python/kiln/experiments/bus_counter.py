"""Bytes over the bus of a GPU, as the driver's management library (NVML) counts them."""

from __future__ import annotations

import ctypes
import dataclasses
import threading
import time
from collections.abc import Callable
from typing import Any

# NVML_FI_DEV_PCIE_COUNT_TX_BYTES and _RX_BYTES, as the GPU sends and receives.
TX_BYTES_FIELD, RX_BYTES_FIELD = 197, 198
TX_COUNTER, RX_COUNTER = 0, 1  # of nvmlDeviceGetPcieThroughput
UINT, WIDE = 1, (2, 3, 4)  # nvmlValueType_t: 32 bits, and those of 64
SETTLE_S = 0.1  # behind work, for counters that come late


class NoCounter(Exception):
    """Why bytes cannot be counted, in words."""


class FieldValue(ctypes.Structure):
    """nvmlFieldValue_t, whose value is a union of at most 8 bytes."""

    _fields_ = [
        ("field", ctypes.c_uint),
        ("scope", ctypes.c_uint),
        ("timestamp", ctypes.c_longlong),
        ("latency_us", ctypes.c_longlong),
        ("type", ctypes.c_int),
        ("status", ctypes.c_int),
        ("value", ctypes.c_ulonglong),
    ]


@dataclasses.dataclass(frozen=True)
class Traffic:
    """What went over the bus within some time."""

    to_device: float  #: bytes that the GPU received
    to_host: float  #: bytes that it sent
    seconds: float

    def per_second(self) -> Traffic:
        return Traffic(self.to_device / self.seconds, self.to_host / self.seconds, 1.0)


def load_library(name: str) -> Any:
    """NoCounter where it is not there."""
    try:
        return ctypes.CDLL(name)
    except OSError as error:
        raise NoCounter(f"{name} cannot be loaded") from error


def function_of(library: Any, name: str) -> Any:
    """NoCounter where the library is too old to have it."""
    try:
        return getattr(library, name)
    except AttributeError as error:
        raise NoCounter(f"the driver has no {name}") from error


def pci_bus_id(device: str) -> bytes:
    """Where a device of CUDA ("cuda:1") sits: its numbers are not NVML's."""
    driver = load_library("libcuda.so.1")
    handle, text = ctypes.c_int(), ctypes.create_string_buffer(32)
    ordinal = int(device.partition(":")[2] or 0)
    for name, arguments in (
        ("cuInit", (0,)),
        ("cuDeviceGet", (ctypes.byref(handle), ordinal)),
        ("cuDeviceGetPCIBusId", (text, len(text), handle)),
    ):
        if code := function_of(driver, name)(*arguments):
            raise NoCounter(f"{name} failed with code {code}")
    return text.value


class Nvml:
    """NVML's view of one device."""

    def __init__(self, device: str) -> None:
        bus_id = pci_bus_id(device)
        self.library, self.handle = load_library("libnvidia-ml.so.1"), ctypes.c_void_p()
        self.call("nvmlInit_v2")
        self.call("nvmlDeviceGetHandleByPciBusId_v2", bus_id, ctypes.byref(self.handle))

    def call(self, name: str, *arguments: Any) -> None:
        self.check(name, function_of(self.library, name)(*arguments))

    def check(self, what: str, status: int) -> None:
        """NoCounter with NVML's words for what is not 0."""
        if status:
            describe = function_of(self.library, "nvmlErrorString")
            describe.restype = ctypes.c_char_p
            raise NoCounter(f"{what}: {(describe(status) or b'?').decode(errors='replace')}")


class ByteCounters:
    """Counters that run on and may wrap."""

    name = "NVML's PCIe byte counters"

    def __init__(self, nvml: Nvml) -> None:
        self.nvml = nvml
        self.read()

    def read(self) -> tuple[FieldValue, FieldValue]:
        """What was received and sent so far."""
        values = (FieldValue * 2)(FieldValue(field=RX_BYTES_FIELD), FieldValue(field=TX_BYTES_FIELD))
        self.nvml.call("nvmlDeviceGetFieldValues", self.nvml.handle, 2, values)
        for value in values:
            self.nvml.check("the GPU's PCIe byte counters", value.status)
            if value.type != UINT and value.type not in WIDE:
                raise NoCounter(f"the GPU's PCIe byte counters are of the unknown type {value.type}")
        return values[0], values[1]

    def during(self, work: Callable[[], object]) -> Traffic:
        started, before = time.perf_counter(), self.read()
        work()
        time.sleep(SETTLE_S)
        after, stopped = self.read(), time.perf_counter()
        received, sent = (difference(*pair) for pair in zip(before, after))
        return Traffic(received, sent, stopped - started)


def difference(before: FieldValue, after: FieldValue) -> int:
    """Between two readings, between which a counter wrapped once at most, at 32 bits or at 64."""
    mask = (1 << 32) - 1 if after.type == UINT else (1 << 64) - 1
    first, second = int(before.value) & mask, int(after.value) & mask
    if second >= first:
        return second - first
    return second - first + (1 << 32 if first < 1 << 32 else 1 << 64)


class SampledRates:
    """Rates of the last 20 ms, asked for while work runs: for devices without counters that run on."""

    name = "samples of NVML's PCIe throughput"

    def __init__(self, nvml: Nvml) -> None:
        self.nvml = nvml
        self.rate(RX_COUNTER)
        self.rate(TX_COUNTER)

    def rate(self, counter: int) -> float:
        """Bytes a second; takes 20 ms."""
        kilobytes = ctypes.c_uint()
        self.nvml.call("nvmlDeviceGetPcieThroughput", self.nvml.handle, counter, ctypes.byref(kilobytes))
        return kilobytes.value * 1e3

    def during(self, work: Callable[[], object]) -> Traffic:
        is_done, received, sent, failures = threading.Event(), list[float](), list[float](), list[NoCounter]()

        def sample() -> None:
            try:
                while not is_done.is_set() or not sent:
                    received.append(self.rate(RX_COUNTER))
                    sent.append(self.rate(TX_COUNTER))
            except NoCounter as failure:
                failures.append(failure)

        thread, started = threading.Thread(target=sample), time.perf_counter()
        thread.start()
        try:
            work()
        finally:
            seconds = time.perf_counter() - started
            is_done.set()
            thread.join()
        if failures:
            raise failures[0]
        to_device, to_host = (sum(rates) / len(rates) * seconds for rates in (received, sent))
        return Traffic(to_device, to_host, seconds)


Counter = ByteCounters | SampledRates


def counters_of(device: str) -> list[Counter]:
    """Those that answer, the better one first. NoCounter with the first one's reason where none does."""
    nvml = Nvml(device)
    found: list[Counter] = []
    reasons: list[NoCounter] = []
    for kind in (ByteCounters, SampledRates):
        try:
            found.append(kind(nvml))
        except NoCounter as reason:
            reasons.append(reason)
    if not found:
        raise reasons[0]
    return found
