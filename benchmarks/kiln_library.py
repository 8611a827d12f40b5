"""Resolved ops of libkiln_bench.so over torch tensors and NumPy arrays."""

import ctypes
import json
import pathlib

KV_SERIES = pathlib.Path(__file__).resolve().parents[1] / "python" / "kiln" / "experiments" / "kv_series.cuh"


class BenchTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("dtype", ctypes.c_char_p),
        ("on_cuda", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
    ]


def describe(tensor):
    """A torch tensor or a NumPy array as the library takes it; None is an optional input that is left out."""
    if tensor is None:
        return BenchTensor()
    if hasattr(tensor, "data_ptr"):
        address, dtype, strides, on_cuda = (
            tensor.data_ptr(),
            str(tensor.dtype).removeprefix("torch."),
            tensor.stride(),
            tensor.is_cuda,
        )
    else:
        address, dtype, strides, on_cuda = (
            tensor.ctypes.data,
            str(tensor.dtype),
            [step // tensor.itemsize for step in tensor.strides],
            False,
        )
    rank = len(tensor.shape)
    return BenchTensor(
        address,
        dtype.encode(),
        on_cuda,
        rank,
        (ctypes.c_int64 * rank)(*tensor.shape),
        (ctypes.c_int64 * rank)(*strides),
    )


class Handle:
    """Something that the library made, given back when it goes."""

    def __init__(self, kiln, address, free):
        kiln.check(not address)
        self.kiln, self.address, self.free = kiln, ctypes.c_void_p(address), free

    def __del__(self):
        if hasattr(self, "address"):
            self.free(self.address)


class PinnedPool(Handle):
    """kiln::PinnedPool of the first GPU."""

    def __init__(self, kiln):
        super().__init__(kiln, kiln.library.kiln_bench_pool_new(), kiln.library.kiln_bench_pool_free)

    def empty(self, size_bytes):
        """The handle and the address of a block."""
        data = ctypes.c_void_p()
        block = self.kiln.library.kiln_bench_pool_empty(self.address, ctypes.c_int64(size_bytes), ctypes.byref(data))
        self.kiln.check(not block)
        return ctypes.c_void_p(block), data.value

    def release(self, block):
        """Lets the block go, to be handed out again when what is on the stream so far is done with it."""
        self.kiln.check(
            self.kiln.library.kiln_bench_pool_release(self.address, block, ctypes.c_void_p(self.kiln.stream))
        )


class PackedGather(Handle):
    """kiln::PackedGather of the first GPU."""

    def __init__(self, kiln):
        super().__init__(kiln, kiln.library.kiln_bench_packed_gather_new(), kiln.library.kiln_bench_packed_gather_free)

    def run(self, dst, src, indices, threads):
        """Returns when `threads` of the CPU have packed all rows; the stream has dst."""
        described = (BenchTensor * 3)(*map(describe, (dst, src, indices)))
        self.kiln.check(
            self.kiln.library.kiln_bench_packed_gather_run(
                self.address,
                *(ctypes.byref(tensor) for tensor in described),
                threads,
                ctypes.c_void_p(self.kiln.stream),
            )
        )


class OffloadPipeline(Handle):
    """kiln::OffloadPipeline for chunks that load one tensor and store one."""

    COMPUTE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)

    def __init__(self, kiln, depth):
        self.on_cuda = int(kiln.stream is not None)
        super().__init__(
            kiln, kiln.library.kiln_bench_pipeline_new(self.on_cuda, depth), kiln.library.kiln_bench_pipeline_free
        )

    def run(self, loads, stores, compute):
        """compute(chunk, address of the loaded, address of what is to be stored, stream) enqueues a chunk's work. Waits for nothing."""
        problems = []

        def guarded(*arguments):
            try:
                compute(*arguments)
                return 0
            except Exception as error:  # it cannot pass through the library
                problems.append(error)
                return 1

        described = [(BenchTensor * len(tensors))(*map(describe, tensors)) for tensors in (loads, stores)]
        failed = self.kiln.library.kiln_bench_pipeline_run(
            self.address, *described, len(loads), self.COMPUTE(guarded), self.on_cuda, ctypes.c_void_p(self.kiln.stream)
        )
        if problems:
            raise problems[0]
        self.kiln.check(failed)


class Kiln:
    """`stream` is a CUDA stream's address: where ops over tensors of the GPU run. None: all is on the CPU."""

    def __init__(self, path, stream=None):
        self.library = ctypes.CDLL(str(path))
        self.stream = stream
        self.library.kiln_bench_error.restype = ctypes.c_char_p
        for name in ("resolve", "pool_new", "pool_empty", "packed_gather_new", "pipeline_new"):
            getattr(self.library, f"kiln_bench_{name}").restype = ctypes.c_void_p
        self.library.kiln_bench_config.restype = ctypes.c_char_p
        self.library.kiln_bench_config.argtypes = [ctypes.c_void_p]
        self.library.kiln_bench_launch.argtypes = [ctypes.c_void_p, ctypes.c_void_p]

    def check(self, failed):
        if failed:
            raise RuntimeError(self.library.kiln_bench_error().decode())

    def register_read(self, kernel_path):
        """Makes op "benchmark_read": it reads its input and writes one number."""
        self.check(self.library.kiln_bench_register_read(str(kernel_path).encode()))

    def register_kv_series(self):
        """Makes op "benchmark_kv_series": see benchmarks/kv_series_op.hpp. Its kernels are those of `kiln experiment gather`."""
        self.check(self.library.kiln_bench_register_kv_series(str(KV_SERIES).encode()))

    def copy(self, destination, source):
        """kiln::copy of a dense tensor, on the stream."""
        described = (BenchTensor * 2)(describe(destination), describe(source))
        self.check(
            self.library.kiln_bench_copy(
                ctypes.byref(described[0]), ctypes.byref(described[1]), ctypes.c_void_p(self.stream)
            )
        )

    def resolve(self, op, outputs, inputs, attributes=None, config=None, overlap_previous=False):
        """A function that launches the op, on `stream` where one is given; its `config` says which variant and config that is."""
        tensors = [*outputs, *inputs]
        described = (BenchTensor * len(tensors))(*map(describe, tensors))
        call = self.library.kiln_bench_resolve(
            op.encode(),
            described,
            len(outputs),
            len(tensors),
            json.dumps(attributes or {}).encode(),
            config.encode() if config else None,
            int(overlap_previous),
        )
        self.check(not call)
        call, launch = ctypes.c_void_p(call), self.library.kiln_bench_launch

        def run(stream=ctypes.c_void_p(self.stream)):
            self.check(launch(call, stream))

        flops, moved = ctypes.c_double(), ctypes.c_double()
        self.library.kiln_bench_cost(call, ctypes.byref(flops), ctypes.byref(moved))
        run.flops, run.bytes = flops.value, moved.value
        run.config = self.library.kiln_bench_config(call).decode()
        run.handle, run.tensors = call, tensors  # keeps their memory
        run.load_anew = lambda: self.check(self.library.kiln_bench_load_anew(call))
        return run
