"""Bytes over the bus in ``kiln experiment graphs``, with libraries and counters that stand in for a GPU's."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import kiln
import pytest
from kiln.experiments import bus_counter, graphs, launch_bytes
from kiln.experiments.bus_counter import FieldValue, NoCounter, SampledRates, Traffic
from kiln.experiments.report import Report
from kiln.experiments.spin import Spin

WIDE, UINT = 3, bus_counter.UINT
NOT_SUPPORTED = 3
BUS_ID = b"0000:1B:00.0"


def libraries(
    *,
    received: tuple[int, ...] = (0,),
    sent: tuple[int, ...] = (0,),
    kind: int = WIDE,
    fields: int = 0,
    field: int = 0,
    rates: int = 0,
    found: int = 0,
) -> dict[str, Any]:
    """libcuda and libnvidia-ml: readings of the counters in turn, their type, and the status of each function."""
    readings = {bus_counter.RX_BYTES_FIELD: list(received), bus_counter.TX_BYTES_FIELD: list(sent)}

    def name_device(text: Any, size: int, device: Any) -> int:
        text.value = BUS_ID if device.value == 7 and size > len(BUS_ID) else b"?"
        return 0

    def find(bus_id: bytes, handle: Any) -> int:
        handle._obj.value = 1234
        return found if bus_id == BUS_ID else 2

    def read(handle: Any, count: int, values: Any) -> int:
        assert handle.value == 1234
        for value in values[:count]:
            left = readings[value.field]
            value.value = left.pop(0) if len(left) > 1 else left[0]
            value.type, value.status = kind, field
        return fields

    def rate(_: Any, counter: int, kilobytes: Any) -> int:
        kilobytes._obj.value = {bus_counter.RX_COUNTER: 2000, bus_counter.TX_COUNTER: 3000}[counter]
        return rates

    def get(device: Any, ordinal: int) -> int:
        device._obj.value = 7
        return 0 if ordinal == 1 else 101

    return {
        "libcuda.so.1": types.SimpleNamespace(cuInit=lambda _: 0, cuDeviceGet=get, cuDeviceGetPCIBusId=name_device),
        "libnvidia-ml.so.1": types.SimpleNamespace(
            nvmlInit_v2=lambda: 0,
            nvmlDeviceGetHandleByPciBusId_v2=find,
            nvmlDeviceGetFieldValues=read,
            nvmlDeviceGetPcieThroughput=rate,
            nvmlErrorString=lambda status: b"Not Supported" if status == NOT_SUPPORTED else b"Other",
        ),
    }


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bus_counter, "SETTLE_S", 0.0)
    monkeypatch.setattr(launch_bytes, "WINDOW_S", 0.005)
    monkeypatch.setattr(launch_bytes, "PAUSE_S", 0.001)


def use(monkeypatch: pytest.MonkeyPatch, loaded: dict[str, Any]) -> None:
    def load(name: str) -> Any:
        if name not in loaded:
            raise NoCounter(f"{name} cannot be loaded")
        return loaded[name]

    monkeypatch.setattr(bus_counter, "load_library", load)


@pytest.mark.parametrize(
    ("kind", "before", "after", "passed"),
    [
        (WIDE, 100, 350, 250),
        (WIDE, 2**32 - 10, 5, 15),
        (WIDE, 2**64 - 10, 5, 15),
        (UINT, 2**32 - 1, 2, 3),
        (UINT, (9 << 32) + 1, 4, 3),
    ],
)
def test_counters_wrap(kind: int, before: int, after: int, passed: int) -> None:
    first, second = (FieldValue(type=kind, value=value) for value in (before, after))
    assert bus_counter.difference(first, second) == passed


def test_what_goes_over_during_work(monkeypatch: pytest.MonkeyPatch, short: None) -> None:
    use(monkeypatch, libraries(received=(5, 100, 1100), sent=(0, 10, 30)))
    counters, rates = bus_counter.counters_of("cuda:1")
    done: list[int] = []
    traffic = counters.during(lambda: done.append(1))
    assert done and (traffic.to_device, traffic.to_host) == (1000, 20) and traffic.seconds > 0
    assert isinstance(rates, SampledRates)
    sampled = rates.during(lambda: done.append(2))
    each = sampled.per_second()
    assert (each.to_device, each.to_host) == pytest.approx((2e6, 3e6))


@pytest.mark.parametrize(
    ("device", "loaded", "says"),
    [
        ("cuda:1", {}, "libcuda.so.1 cannot be loaded"),
        ("cuda:0", libraries(), "cuDeviceGet failed with code 101"),
        ("cuda:1", {"libcuda.so.1": libraries()["libcuda.so.1"]}, "libnvidia-ml.so.1 cannot be loaded"),
        ("cuda:1", {**libraries(), "libnvidia-ml.so.1": types.SimpleNamespace()}, "the driver has no nvmlInit_v2"),
        ("cuda:1", libraries(found=6), "nvmlDeviceGetHandleByPciBusId_v2: Other"),
        ("cuda:1", libraries(fields=3, rates=4), "nvmlDeviceGetFieldValues: Not Supported"),
        ("cuda:1", libraries(field=3, rates=3), "the GPU's PCIe byte counters: Not Supported"),
        ("cuda:1", libraries(kind=9, rates=3), "of the unknown type 9"),
    ],
)
def test_why_there_is_no_counter(
    monkeypatch: pytest.MonkeyPatch, device: str, loaded: dict[str, Any], says: str
) -> None:
    use(monkeypatch, loaded)
    with pytest.raises(NoCounter, match=says):
        bus_counter.counters_of(device)


def test_rates_serve_where_counters_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, libraries(field=3))
    assert [counter.name for counter in bus_counter.counters_of("cuda:1")] == [SampledRates.name]


class FakeCounter:
    """Counts a share of each copied byte, 96 and 16 bytes for each kernel, and what an idle device moves."""

    name = "fake counters"
    IDLE = 1e6  # bytes a second

    def __init__(self, share: float) -> None:
        self.share, self.kernels, self.copies = share, 0, 0

    def during(self, work: Callable[[], object]) -> Traffic:
        self.kernels = self.copies = 0
        work()
        idle, copied = self.IDLE * 0.01, self.copies * launch_bytes.COPIED_BYTES * self.share
        return Traffic(idle + copied + 96 * self.kernels, idle + copied + 16 * self.kernels, 0.01)


@pytest.mark.parametrize(("share", "is_trusted"), [(1.1, True), (0.0, False), (1000.0, False)])
def test_bytes_of_a_launch(monkeypatch: pytest.MonkeyPatch, short: None, share: float, is_trusted: bool) -> None:
    counter = FakeCounter(share)
    monkeypatch.setattr(launch_bytes, "counters_of", lambda device: [counter])
    monkeypatch.setattr(launch_bytes, "COPIED_BYTES", 4096)
    copy = kiln.copy_async

    def counted(*arguments: Any) -> kiln.Event:
        counter.copies += 1
        return copy(*arguments)

    monkeypatch.setattr(kiln, "copy_async", counted)

    def launch(kernels: int) -> Callable[[], None]:
        def call() -> None:
            counter.kernels += kernels

        return call

    report = Report("graphs", "fake", {})
    ways = {"dispatch": (10, launch(10)), "graph of one": (1, launch(1))}
    launch_bytes.add_bus(report, "cpu", kiln.Stream("cpu"), ways)
    assert len(report.notes) == 1
    if not is_trusted:
        assert report.data["bus"]["counter"] is None and not report.tables
        assert "Bytes over the bus were not counted: fake counters count" in report.notes[0]
        return
    assert report.data["bus"]["of_a_copied_byte"] == pytest.approx({"to_device": share, "to_host": share})
    for row, (name, (calls, _)) in zip(report.tables["bus"].rows, ways.items()):
        assert (row["way"], row["calls"]) == (name, calls) and row["us"] > 0
        assert [row["to_device_bytes"], row["to_host_bytes"], row["uncertain_bytes"]] == pytest.approx([96, 16, 0])


def test_a_counter_that_fails_is_a_note(monkeypatch: pytest.MonkeyPatch, short: None) -> None:
    use(monkeypatch, {})
    report = Report("graphs", "fake", {})
    launch_bytes.add_bus(report, "cuda:0", kiln.Stream("cpu"), {})
    assert report.notes == ["Bytes over the bus were not counted: libcuda.so.1 cannot be loaded."]
    assert report.data["bus"] == {"counter": None, "reason": "libcuda.so.1 cannot be loaded"}


def test_the_ways_of_the_experiment(monkeypatch: pytest.MonkeyPatch, short: None) -> None:
    stream = kiln.Stream("cpu")
    ways = graphs.bus_ways(Spin("cpu", stream), 5)
    assert {name: calls for name, (calls, _) in ways.items()} == {
        "dispatch": 5,
        "resolved": 5,
        "graph": 5,
        "graph of one": 1,
    }
    rows = launch_bytes.launch_rows(FakeCounter(1.0), ways, stream)
    assert [row["way"] for row in rows] == list(ways)
    assert all(row["us"] > 0 and row["to_host_bytes"] == 0 == row["to_device_bytes"] for row in rows)
