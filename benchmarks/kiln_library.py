"""Resolved ops of libkiln_bench.so over torch tensors and NumPy arrays."""

import ctypes
import json


class BenchTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("dtype", ctypes.c_char_p),
        ("ndim", ctypes.c_int),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
    ]


def describe(tensor):
    """A torch tensor or a NumPy array as the library takes it."""
    if hasattr(tensor, "data_ptr"):
        address, dtype, strides = tensor.data_ptr(), str(tensor.dtype).removeprefix("torch."), tensor.stride()
    else:
        address, dtype, strides = tensor.ctypes.data, str(tensor.dtype), [step // tensor.itemsize for step in tensor.strides]
    rank = len(tensor.shape)
    return BenchTensor(address, dtype.encode(), rank, (ctypes.c_int64 * rank)(*tensor.shape), (ctypes.c_int64 * rank)(*strides))


class Kiln:
    """`stream` is a CUDA stream's address; None: tensors are on the CPU."""

    def __init__(self, path, stream=None):
        self.library = ctypes.CDLL(str(path))
        self.stream = stream
        self.library.kiln_bench_error.restype = ctypes.c_char_p
        self.library.kiln_bench_resolve.restype = ctypes.c_void_p
        self.library.kiln_bench_config.restype = ctypes.c_char_p
        self.library.kiln_bench_config.argtypes = [ctypes.c_void_p]
        self.library.kiln_bench_launch.argtypes = [ctypes.c_void_p, ctypes.c_void_p]

    def check(self, failed):
        if failed:
            raise RuntimeError(self.library.kiln_bench_error().decode())

    def register_read(self, kernel_path):
        """Makes op "benchmark_read": it reads its input and writes one number."""
        self.check(self.library.kiln_bench_register_read(str(kernel_path).encode()))

    def resolve(self, op, outputs, inputs, attributes=None, config=None):
        """A function that launches the op; its `config` says which variant and config that is."""
        tensors = [*outputs, *inputs]
        described = (BenchTensor * len(tensors))(*map(describe, tensors))
        call = self.library.kiln_bench_resolve(
            op.encode(), int(self.stream is not None), described, len(outputs), len(tensors),
            json.dumps(attributes or {}).encode(), config.encode() if config else None
        )
        self.check(not call)
        call, stream, launch = ctypes.c_void_p(call), ctypes.c_void_p(self.stream), self.library.kiln_bench_launch

        def run():
            self.check(launch(call, stream))

        flops, moved = ctypes.c_double(), ctypes.c_double()
        self.library.kiln_bench_cost(call, ctypes.byref(flops), ctypes.byref(moved))
        run.flops, run.bytes = flops.value, moved.value
        run.config = self.library.kiln_bench_config(call).decode()
        run.tensors = tensors  # keeps their memory
        return run
