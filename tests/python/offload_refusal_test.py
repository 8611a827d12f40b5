"""What the offload library refuses, from Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import kiln
import numpy
import pytest
from refusal import refused

X = numpy.ones((4, 8), numpy.float32)
Y = numpy.zeros((4, 8), numpy.float32)
FROZEN = numpy.zeros((4, 8), numpy.float32)
FROZEN.flags.writeable = False
BYTES = numpy.zeros((4, 656), numpy.uint8)
PAIRS = numpy.zeros((1, 4, 2), numpy.int32)


def pool(*arguments: Any, **keywords: Any) -> Callable[[], object]:
    return lambda: kiln.PinnedPool(*arguments, **keywords)


def swap(*arguments: Any, **keywords: Any) -> Callable[[], object]:
    return lambda: kiln.swap_blocks(*arguments, **keywords)


def gather(*arguments: Any) -> Callable[[], object]:
    return lambda: kiln.PackedGather("cpu")(*arguments)


def run(chunks: Any, compute: Any = lambda *_: None, stream: Any = None) -> Callable[[], object]:
    return lambda: kiln.OffloadPipeline("cpu").run(chunks, compute, stream)


@pytest.mark.parametrize(
    ("exception", "words", "call"),
    [
        (ValueError, "'tpu'", pool("tpu")),
        (ValueError, "alignment_bytes=5; expected a power of two", pool("cpu", alignment_bytes=5)),
        (ValueError, "max_cached_bytes=-1", pool("cpu", max_cached_bytes=-1)),
        (TypeError, "max_cached_bytes: expected an integer, got str", pool("cpu", max_cached_bytes="1 GB")),
        (TypeError, "incompatible|unexpected", pool("cpu", alignment=4096)),
        (ValueError, "-3", lambda: kiln.PinnedPool("cpu").empty(-3)),
        (ValueError, "larger than any memory", lambda: kiln.PinnedPool("cpu").empty(1 << 62)),
        (kiln.DeviceError, "out of memory: .* bytes asked for", lambda: kiln.PinnedPool("cpu").empty(1 << 55, "u8")),
        (ValueError, "f31", lambda: kiln.PinnedPool("cpu").empty(3, "f31")),
        (ValueError, "keep_bytes is -1; expected 0 or more", lambda: kiln.PinnedPool("cpu").trim(-1)),
        (TypeError, "array: expected an array, got None", lambda: kiln.PinnedPool("cpu").record(None)),
        (TypeError, "array: ", lambda: kiln.PinnedPool("cpu").record([1, 2])),
        (TypeError, "on the CPU", lambda: kiln.PinnedPool("cpu").record(X, 5)),
        (TypeError, "no constructor", lambda: kiln.HostRegistration()),
        (TypeError, "array: expected an array, got None", lambda: kiln.register_host_memory(None)),
        (ValueError, "the CPU needs no such thing", lambda: kiln.register_host_memory(X, "cpu")),
        (ValueError, "destination is read-only", lambda: kiln.copy_async(FROZEN, X)),
        (TypeError, "source: expected an array, got None", lambda: kiln.copy_async(Y, None)),
        (TypeError, "destination: ", lambda: kiln.copy_async([1.0], X)),
        (ValueError, "shape|4, 8", lambda: kiln.copy_async(Y, X[:3])),
        (ValueError, "dense|contiguous|strides", lambda: kiln.copy_async(Y[:, ::2], X[:, ::2])),
        ((TypeError, ValueError), "f64", lambda: kiln.copy_async(Y, X.astype(numpy.float64))),
        (TypeError, "on the CPU", lambda: kiln.copy_async(Y, X, 12345)),
        (ValueError, "method='dma'; expected 'automatic', 'kernel' or 'copy_engine'", swap(Y, X, [], method="dma")),
        (ValueError, r"array \[n, 2\] on the CPU, got shape \(2,\)", swap(Y, X, (0, 1))),
        (TypeError, "got elements of float64", swap(Y, X, [(0, 1.5)])),
        (TypeError, "integer array|got elements", swap(Y, X, [(0, 1), (2,)])),
        (TypeError, "got elements of", swap(Y, X, "pairs")),
        (ValueError, "pair 1 copies block 4 of 'src'", swap(Y, X, [(0, 0), (4, 0)])),
        (ValueError, "dst is read-only", swap(FROZEN, X, [(0, 1)])),
        (ValueError, "chunk_bytes is 0, expected 1 or more", lambda: kiln.PackedGather("cpu", chunk_bytes=0)),
        (ValueError, "depth is 0, expected 1 or more", lambda: kiln.PackedGather("cpu", depth=0)),
        (ValueError, "depth: 4294967296 is far too many", lambda: kiln.PackedGather("cpu", depth=1 << 32)),
        (TypeError, "depth: expected an integer, got float", lambda: kiln.PackedGather("cpu", depth=1.5)),
        (TypeError, "indices: expected an array, got None", gather(BYTES, BYTES, None)),
        ((TypeError, ValueError), "indices", gather(BYTES, BYTES, PAIRS[0])),
        ((TypeError, ValueError), "f32|dtype|src", gather(BYTES, X, PAIRS)),
        (ValueError, "depth 0; expected 1 or more", lambda: kiln.OffloadPipeline("cpu", 0)),
        (TypeError, "depth: expected an integer, got str", lambda: kiln.OffloadPipeline("cpu", "3")),
        (TypeError, "chunks is a numpy.ndarray; expected a list", run(X)),
        (TypeError, "chunk 0 is a numpy.ndarray; expected a list", run([X])),
        (TypeError, "tensor 0 of chunk 0: expected an array, got None", run([[None]])),
        (TypeError, "tensor 1 of chunk 0: .*str", run([(X, "store")])),
        (ValueError, "'write'; expected 'load', 'store' or 'load_and_store'", run([[(X, "write")]])),
        (ValueError, "is a tuple of 3", run([[(X, Y, "load")]])),
        (ValueError, "tensor 0 of chunk 1 is read-only", run([[X], [(FROZEN, "store")]])),
        (ValueError, "tensor 1 of chunk 0: expected a dense", run([[X, X[:, ::2]]])),
        (TypeError, "compute is a int; expected a function", run([[X]], 5)),
        (TypeError, "on the CPU", run([[X]], stream=77)),
        (ValueError, "cuda:99", lambda: kiln.memory_usage("cuda:99")),
    ],
)
def test_refusals(exception: Any, words: str, call: Callable[[], object]) -> None:
    refused(exception, words, call)


@pytest.mark.skipif(len(kiln.devices()) > 1, reason="there is a GPU")
@pytest.mark.parametrize(
    ("advice", "make"),
    [
        ('give the device "cpu"', lambda: kiln.PinnedPool("cuda")),
        ('give the device "cpu"', lambda: kiln.PackedGather("cuda")),
        ('give the device "cpu"', lambda: kiln.OffloadPipeline("cuda")),
        ("leave the registration out", lambda: kiln.register_host_memory(X)),
    ],
)
def test_without_a_gpu_what_needs_one_says_so(advice: str, make: Callable[[], object]) -> None:
    refused(kiln.DeviceError, f"there is no device cuda:0: .*; .*{advice}", make)
