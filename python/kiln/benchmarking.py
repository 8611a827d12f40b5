"""Timing ops, and anything else beside them, by one clock."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kiln import _kiln
from kiln.argument import check_integer, check_number
from kiln.op_call import OpCall, is_op, name_of, op_call

Interval = tuple[float, float]

DLPACK_CPU, DLPACK_CUDA = 1, 2


@dataclass(frozen=True)
class Benchmark:
    """The time of one call, and what follows from it.

    Times are in microseconds. Intervals are those of the median with 95% confidence by order statistics; None where
    there are too few samples to tell. Rates are None where the work is not known, as of a Python callable alone.
    """

    name: str
    device: str
    device_name: str
    policy: str  #: how times were taken: "eager, hot L2"
    median_us: float
    interval_us: Interval | None
    p10_us: float
    p90_us: float
    min_us: float
    samples_us: list[float] = field(repr=False)  #: of one call each, in the order taken
    bytes: float | None  #: each input element read once, each output element written once
    flops: float | None
    peak_gb_s: float | None  #: of the device's memory, where the device says
    config: dict[str, int] | None = None
    config_source: str | None = None  #: "given", "tuned", "tuned for 4096x4096", "default"
    variant: str | None = None
    skipped_share: float | None = (
        None  #: of the work, by indices that name nothing and the like; rates count it as done
    )
    against: Benchmark | None = None  #: what took turns with it
    speedup: float | None = None  #: how many times as fast as ``against``
    speedup_interval: Interval | None = None

    @property
    def gb_s(self) -> float | None:
        """Gigabytes a second."""
        return self.bytes / self.median_us * 1e-3 if self.bytes else None

    @property
    def tflop_s(self) -> float | None:
        """Teraflops a second."""
        return self.flops / self.median_us * 1e-6 if self.flops else None

    @property
    def share_of_roofline(self) -> float | None:
        """What moving the bytes would take at the memory's peak, over the time it took; None where no peak is known."""
        return self.gb_s / self.peak_gb_s if self.gb_s and self.peak_gb_s else None

    def to_dict(self) -> dict[str, Any]:
        """A flat dict of numbers and texts, a row for ``pandas.DataFrame``; without the samples."""
        low_us, high_us = self.interval_us or (None, None)
        return {
            "name": self.name,
            "device": self.device_name,
            "median_us": self.median_us,
            "low_us": low_us,
            "high_us": high_us,
            "p10_us": self.p10_us,
            "p90_us": self.p90_us,
            "samples": len(self.samples_us),
            "gb_s": self.gb_s,
            "tflop_s": self.tflop_s,
            "share_of_roofline": self.share_of_roofline,
            "config": self.config,
            "config_source": self.config_source,
            "skipped_share": self.skipped_share,
            "speedup": self.speedup,
        }

    def __str__(self) -> str:
        lines = [_line(self)]
        if self.against is not None:
            lines.append(_line(self.against))
            interval = (
                f" ({self.speedup_interval[0]:.3f} to {self.speedup_interval[1]:.3f})" if self.speedup_interval else ""
            )
            lines.append(f"{self.name} is {self.speedup:.3f}x as fast as {self.against.name}{interval}")
        return "\n".join(lines)

    __repr__ = __str__


def _line(benchmark: Benchmark) -> str:
    parts = [f"{benchmark.name}: {benchmark.median_us:.4g} us"]
    if benchmark.interval_us:
        parts[0] += f" ({benchmark.interval_us[0]:.4g} to {benchmark.interval_us[1]:.4g})"
    if benchmark.gb_s:
        parts.append(f"{benchmark.gb_s:.4g} GB/s")
    if benchmark.tflop_s and benchmark.flops and benchmark.bytes and benchmark.flops > 2 * benchmark.bytes:
        parts.append(f"{benchmark.tflop_s * 1e3:.4g} GFLOP/s")
    if benchmark.share_of_roofline:
        parts.append(f"{100 * benchmark.share_of_roofline:.1f}% of the memory's peak")
    if benchmark.skipped_share:
        parts.append(f"{100 * benchmark.skipped_share:.1f}% of the work skipped, which rates count as done")
    if benchmark.config:
        parts.append(
            " ".join(f"{name}={value}" for name, value in benchmark.config.items()) + f" ({benchmark.config_source})"
        )
    return ", ".join(parts)


def device_of(arrays: Sequence[object]) -> str:
    """The device of the first array that names one by DLPack's protocol: "cpu", "cuda:0"; "cpu" without any."""
    for array in arrays:
        if hasattr(array, "__dlpack_device__"):
            kind, index = array.__dlpack_device__()
            return f"cuda:{index}" if int(kind) == DLPACK_CUDA else "cpu"
        if hasattr(array, "__cuda_array_interface__"):
            return "cuda:0"
    return "cpu"


def _name_of(candidate: Any) -> str:
    if isinstance(candidate, functools.partial):
        return _name_of(candidate.func)
    return name_of(candidate)


def _library_of(candidate: Any) -> str:
    return str(getattr(candidate, "__module__", None) or type(candidate).__module__).split(".")[0]


def benchmark(
    op: Any,
    *tensors: object,
    samples: int | None = None,
    budget_s: float = 3.0,
    flush_l2: bool | None = None,
    graph: bool = False,
    config: None | str | Mapping[str, int] = None,
    tuning: str | None = None,
    overlap_previous: bool = False,
    against: Any = None,
    stream: object = None,
    **attributes: object,
) -> Benchmark:
    """Times calls of an op, or of any Python callable.

    An op's outputs, and copies of the inputs that it changes, are memory of the benchmark's own: what is timed is the
    op, without allocation and without what Python adds to a call. A callable is timed as it is, Python included, with
    the work that it enqueues on the stream (torch's current one on a GPU).

    Parameters
    ----------
    op
        The name of an op, a kiln.Op, a kiln.Kernel, or a callable, which is called with the tensors and attributes.
    tensors
        The call's tensors.
    samples
        How many; None: until the interval of the median is 1% or 0.5 us wide, or ``budget_s`` is spent. Calls too short
        for a clock are timed several at a time, where caches stay hot.
    budget_s
        Seconds at most, where ``samples`` is None.
    flush_l2
        On a GPU: overwrite the L2 cache before each sample. None: yes. On the CPU caches stay hot.
    graph
        On a GPU: time the replay of a graph of the calls rather than their launches. Ops only.
    config, tuning, overlap_previous
        As in a call.
    against
        Something else that takes turns with it, so that a clock that drifts meets both alike: ``"default"`` (the op
        with its untuned config), ``"reference"`` (the op's definition, on one thread of the CPU), a config (a dict, or
        text with ``=``), another op, or a callable, called with the same tensors and attributes.
    stream
        As in a call.
    attributes
        The op's attributes; tensors may be given by name too.

    Returns
    -------
    Benchmark
        Its ``against`` is the benchmark of the other one.

    Raises
    ------
    ValueError, TypeError, NotImplementedError
        As a call. What a callable raises comes out as it is.
    """
    check_integer("samples", samples, least=1)
    check_number("budget_s", budget_s)
    run = _kiln.BenchmarkRun(graph=graph, flush_l2=flush_l2, stream=stream)
    names: list[str] = []
    kept: list[object] = []  # a run borrows the memory of its tensors

    def add_op(call: OpCall, name: str, config: Any, tuning: str | None, overlap_previous: bool = False) -> None:
        kept.append(call)
        run.add_op(call.op, call.tensors, call.arguments, config, tuning, overlap_previous)
        names.append(name)

    def add_callable(function: Callable[..., object]) -> None:
        if graph:
            raise _kiln.UsageNotImplementedError(
                "graph=True records ops of Kiln only: capture the callable's work yourself, as with torch.cuda.graph, "
                "and give the replay as the callable"
            )
        run.add_callable(
            functools.partial(function, *tensors, **attributes), device_of([*tensors, *attributes.values()])
        )
        name = _name_of(function)
        names.append(f"{_library_of(function)}.{name}" if name in names else name)

    def add(candidate: Any, config: Any, tuning: str | None, overlap_previous: bool = False) -> None:
        if is_op(candidate):
            add_op(op_call(candidate, tensors, attributes), name_of(candidate), config, tuning, overlap_previous)
        elif callable(candidate):
            add_callable(candidate)
        else:
            op_call(candidate, tensors, attributes)  # says what was expected

    add(op, config, tuning, overlap_previous)
    if against is not None:
        is_config = isinstance(against, Mapping) or (isinstance(against, str) and "=" in against)
        if (is_config or against in ("default", "reference")) and not is_op(op):
            raise _kiln.UsageTypeError(f"against={against!r} is for ops, and {_name_of(op)} is none: give a callable")
        if is_config:
            add_op(op_call(op, tensors, attributes), f"{name_of(op)} with {against}", against, None)
        elif against == "default":
            add_op(op_call(op, tensors, attributes), f"{name_of(op)}'s default", None, "off")
        elif against == "reference":
            call = op_call(op, tensors, attributes)
            kept.append(call)
            run.add_reference(call.op, call.tensors, call.arguments)
            names.append(f"{name_of(op)}'s reference")
        else:
            add(against, None, None)
    return _benchmark_of(names, run.run(samples or 0, budget_s))


def _benchmark_of(names: Sequence[str], result: Mapping[str, Any]) -> Benchmark:
    common = {
        "device": result["device"],
        "device_name": result["device_name"],
        "policy": result["policy"],
        "bytes": result["bytes"] or None,
        "flops": result["flops"] or None,
        "peak_gb_s": result["peak_gb_s"] or None,
    }
    first, *others = (Benchmark(name=name, **row, **common) for name, row in zip(names, result["contenders"]))
    if not others:
        return first
    values = {
        **vars(first),
        "against": others[0],
        "speedup": result["speedup"],
        "speedup_interval": result["speedup_interval"],
    }
    return Benchmark(**values)
