"""Bytes over the bus for each launch, beside what an idle device moves and what is known to be moved."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import kiln
from kiln.experiments.bus_counter import Counter, NoCounter, Traffic, counters_of
from kiln.experiments.report import Report, Table

Call = Callable[[], object]

WINDOW_S = 0.5  # of work that is counted at a time
ROUNDS = 3
BURST = 2000  # kernels between two waits of the host, which move bytes too
COPIED_BYTES = 8 << 20
PAUSE_S = 0.01  # between copies, so that counters of 32 bits wrap once at most within a window
TRUSTED = (0.8, 1.6)  # bytes counted for each that is copied: packets have heads, counters are no tighter than this

COLUMNS = ["way", "calls", "us", "to_device_bytes", "to_host_bytes", "uncertain_bytes"]


class Repeated:
    """Calls that go on for a window, and how many there were in how many seconds."""

    def __init__(self, call: Call, stream: kiln.Stream, burst: int) -> None:
        self.call, self.stream, self.burst = call, stream, burst
        self.count, self.seconds = 0, 0.0

    def __call__(self) -> None:
        started = time.perf_counter()
        while self.seconds < WINDOW_S:
            for _ in range(self.burst):
                self.call()
            self.stream.synchronize()
            self.count += self.burst
            self.seconds = time.perf_counter() - started


def idle(counter: Counter) -> Traffic:
    """What a device moves in a second in which nothing is asked of it."""
    return counter.during(lambda: time.sleep(WINDOW_S)).per_second()


def of_a_copied_byte(counter: Counter, device: str, stream: kiln.Stream) -> tuple[float, float]:
    """What is counted for each byte that is copied, to the device and to the host."""
    host = kiln.PinnedPool(device).empty(COPIED_BYTES, "u8")
    on_device = kiln.empty(COPIED_BYTES, "u8", device, stream=stream)
    at_rest = idle(counter)

    def measured(call: Call) -> tuple[float, Traffic]:
        def step() -> None:
            call()
            stream.synchronize()
            time.sleep(PAUSE_S)

        work = Repeated(step, stream, 1)
        traffic = counter.during(work)
        return work.count * COPIED_BYTES, traffic

    there, loaded = measured(lambda: kiln.copy_async(on_device, host, stream))
    back, stored = measured(lambda: kiln.copy_async(host, on_device, stream))
    return (
        (loaded.to_device - at_rest.to_device * loaded.seconds) / there,
        (stored.to_host - at_rest.to_host * stored.seconds) / back,
    )


def trusted_counter(device: str, stream: kiln.Stream) -> tuple[Counter, tuple[float, float]]:
    """A counter that follows copies, and what it counts for a byte of them. NoCounter where there is none."""
    reason = None
    for counter in counters_of(device):
        try:
            shares = of_a_copied_byte(counter, device, stream)
        except NoCounter as failure:
            reason = reason or failure
            continue
        if all(TRUSTED[0] <= share <= TRUSTED[1] for share in shares):
            return counter, shares
        counted = " and ".join(f"{share:.3g}" for share in shares)
        reason = reason or NoCounter(
            f"{counter.name} count {counted} bytes for each that is copied to the device and to the host"
        )
    assert reason is not None
    raise reason


def launch_rows(counter: Counter, ways: Mapping[str, tuple[int, Call]], stream: kiln.Stream) -> list[dict[str, Any]]:
    """Bytes of one kernel each way, of ways by name: how many kernels a call enqueues, and the call.

    What an idle device moves in the same time is taken off; how much that differed from time to time is what is uncertain.
    """
    taken: dict[str, list[tuple[int, Traffic]]] = {name: [] for name in ways}
    times_us: dict[str, list[float]] = {name: [] for name in ways}
    idles = [idle(counter)]
    for _ in range(ROUNDS):
        for name, (calls, call) in ways.items():
            work = Repeated(call, stream, max(1, BURST // calls))
            traffic = counter.during(work)
            taken[name].append((work.count * calls, traffic))
            times_us[name].append(work.seconds * 1e6 / (work.count * calls))
        idles.append(idle(counter))
    rows = []
    for name, (calls, _) in ways.items():
        row: dict[str, Any] = {"way": name, "calls": calls, "us": statistics.median(times_us[name])}
        uncertain = 0.0
        for direction in ("to_device", "to_host"):
            rates = [getattr(one, direction) for one in idles]
            row[f"{direction}_bytes"] = statistics.median(
                (getattr(traffic, direction) - statistics.median(rates) * traffic.seconds) / kernels
                for kernels, traffic in taken[name]
            )
            spread = (max(rates) - min(rates)) / 2
            uncertain = max(
                uncertain, statistics.median(spread * traffic.seconds / kernels for kernels, traffic in taken[name])
            )
        row["uncertain_bytes"] = uncertain
        rows.append(row)
    return rows


def add_bus(report: Report, device: str, stream: kiln.Stream, ways: Mapping[str, tuple[int, Call]]) -> None:
    """The table of bytes, or a note that says why there is none."""
    try:
        counter, (to_device, to_host) = trusted_counter(device, stream)
        rows = launch_rows(counter, ways, stream)
    except NoCounter as reason:
        report.data["bus"] = {"counter": None, "reason": str(reason)}
        report.notes.append(f"Bytes over the bus were not counted: {reason}.")
        return
    report.data["bus"] = {"counter": counter.name, "of_a_copied_byte": {"to_device": to_device, "to_host": to_host}}
    report.tables["bus"] = Table(
        "bytes over the bus for each kernel, whatever it does: what an idle device moves is taken off", COLUMNS, rows
    )
    report.notes.append(
        f"Bytes are those of {counter.name}, which count {to_device:.2f} for each byte that is copied to the device and "
        f"{to_host:.2f} for each to the host."
    )
