"""Kiln: tile kernels compiled at run time, and ops dispatched by name, on NVIDIA GPUs and the CPU.

    import numpy as np
    import kiln

    kiln.ops.add(np.ones(3, np.float32), np.ones(3, np.float32))

kiln.ops has every registered op; kiln.dispatch_gpu_op calls one by its name.
"""

from __future__ import annotations

import importlib

from . import ops
from ._kiln import (
    CompileError,
    DebugReport,
    DeviceError,
    DType,
    Error,
    Event,
    FileError,
    Graph,
    GraphCall,
    HostRegistration,
    InternalError,
    MeasuredPeak,
    MeasuredRate,
    MemoryUsage,
    OffloadPipeline,
    Op,
    OpSpec,
    PackedGather,
    PinnedPool,
    PinnedPoolStatistics,
    PlanReport,
    ProfileMemoryRow,
    Profiler,
    ProfileRegionRow,
    ProfileReport,
    ProfileRow,
    ProfileTotal,
    ResolvedOp,
    Stream,
    Tensor,
    TensorLayout,
    TensorMeta,
    TimeDistribution,
    UnknownOpError,
    UsageError,
    UsageNotImplementedError,
    UsageTypeError,
    UsageValueError,
    __version__,
    capture,
    copy_async,
    devices,
    dispatch_gpu_op,
    empty,
    fork_join,
    infer_outputs,
    measured_matmul_peak,
    measured_peak,
    memory_usage,
    op,
    profile_region,
    register_host_memory,
    resolve,
    stream_priority_range,
    swap_blocks,
    synchronize,
    to_device,
    wait_stream,
    warm_up,
)

TYPE_CHECKING = False  # typing's own costs more to import than all of this
if TYPE_CHECKING:
    from typing import Any

    from .autotuning import TuningTable as TuningTable
    from .autotuning import autotune as autotune
    from .autotuning import tuned_config as tuned_config
    from .benchmarking import Benchmark as Benchmark
    from .benchmarking import benchmark as benchmark
    from .checking import CheckReport as CheckReport
    from .checking import check as check
    from .debugging import debug_op as debug_op
    from .history import TuningRecord as TuningRecord
    from .history import tuning_history as tuning_history
    from .inspection import inspect as inspect
    from .kernel import Kernel as Kernel
    from .kernel import cdiv as cdiv
    from .op_definition import Launch as Launch
    from .op_input import Input as Input
    from .op_input import Selection as Selection
    from .plot import plot_roofline as plot_roofline
    from .plot import plot_tuning as plot_tuning
    from .policy import set_tuning_log as set_tuning_log
    from .policy import set_tuning_policy as set_tuning_policy
    from .policy import tuning as tuning
    from .policy import tuning_policy as tuning_policy
    from .profiling import profile as profile
    from .sweeping import SweepTable as SweepTable
    from .sweeping import sweep as sweep
    from .user_op import register_op as register_op

# Names whose modules are imported when they are first asked for, so that importing kiln stays cheap.
_LAZY: dict[str, str] = {
    "Benchmark": "kiln.benchmarking",
    "CheckReport": "kiln.checking",
    "Input": "kiln.op_input",
    "Kernel": "kiln.kernel",
    "Launch": "kiln.op_definition",
    "Selection": "kiln.op_input",
    "SweepTable": "kiln.sweeping",
    "TuningRecord": "kiln.history",
    "TuningTable": "kiln.autotuning",
    "autotune": "kiln.autotuning",
    "benchmark": "kiln.benchmarking",
    "cdiv": "kiln.kernel",
    "check": "kiln.checking",
    "debug_op": "kiln.debugging",
    "inspect": "kiln.inspection",
    "plot_roofline": "kiln.plot",
    "plot_tuning": "kiln.plot",
    "profile": "kiln.profiling",
    "register_op": "kiln.user_op",
    "set_tuning_log": "kiln.policy",
    "set_tuning_policy": "kiln.policy",
    "sweep": "kiln.sweeping",
    "tuned_config": "kiln.autotuning",
    "tuning": "kiln.policy",
    "tuning_history": "kiln.history",
    "tuning_policy": "kiln.policy",
}


def __getattr__(name: str) -> Any:
    if name == "torch":
        return importlib.import_module("kiln.torch")
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module 'kiln' has no attribute {name!r}")
    value = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY, "torch"})


__all__ = [
    "Benchmark",
    "CheckReport",
    "CompileError",
    "DType",
    "DebugReport",
    "DeviceError",
    "Error",
    "Event",
    "FileError",
    "Graph",
    "GraphCall",
    "HostRegistration",
    "Input",
    "InternalError",
    "Kernel",
    "Launch",
    "MeasuredPeak",
    "MeasuredRate",
    "MemoryUsage",
    "OffloadPipeline",
    "Op",
    "OpSpec",
    "PackedGather",
    "PinnedPool",
    "PinnedPoolStatistics",
    "PlanReport",
    "ProfileMemoryRow",
    "ProfileRegionRow",
    "ProfileReport",
    "ProfileRow",
    "ProfileTotal",
    "Profiler",
    "ResolvedOp",
    "Selection",
    "Stream",
    "SweepTable",
    "Tensor",
    "TensorLayout",
    "TensorMeta",
    "TimeDistribution",
    "TuningRecord",
    "TuningTable",
    "UnknownOpError",
    "UsageError",
    "UsageNotImplementedError",
    "UsageTypeError",
    "UsageValueError",
    "__version__",
    "autotune",
    "benchmark",
    "capture",
    "cdiv",
    "check",
    "copy_async",
    "debug_op",
    "devices",
    "dispatch_gpu_op",
    "empty",
    "fork_join",
    "infer_outputs",
    "inspect",
    "measured_matmul_peak",
    "measured_peak",
    "memory_usage",
    "op",
    "ops",
    "plot_roofline",
    "plot_tuning",
    "profile",
    "profile_region",
    "register_host_memory",
    "register_op",
    "resolve",
    "set_tuning_log",
    "set_tuning_policy",
    "stream_priority_range",
    "swap_blocks",
    "sweep",
    "synchronize",
    "to_device",
    "tuned_config",
    "tuning",
    "tuning_history",
    "tuning_policy",
    "wait_stream",
    "warm_up",
]
