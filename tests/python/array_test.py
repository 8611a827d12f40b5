"""What Python objects become tensors, which do not, and what comes back: NumPy, buffers, DLPack and CUDA interfaces."""

from __future__ import annotations

import array
import ctypes
import gc
import weakref
from typing import Any, ClassVar

import kiln
import ml_dtypes
import numpy
import pytest
from refusal import refused

DTYPES = {
    "f64": numpy.float64,
    "f32": numpy.float32,
    "f16": numpy.float16,
    "bf16": ml_dtypes.bfloat16,
    "fp8e4m3": ml_dtypes.float8_e4m3fn,
    "fp8e5m2": ml_dtypes.float8_e5m2,
    "i64": numpy.int64,
    "i32": numpy.int32,
    "i16": numpy.int16,
    "i8": numpy.int8,
    "u64": numpy.uint64,
    "u32": numpy.uint32,
    "u16": numpy.uint16,
    "u8": numpy.uint8,
    "bool": numpy.bool_,
}


class Producer:
    """An array of an unknown library: __dlpack__ and nothing else."""

    def __init__(self, held: numpy.ndarray, versioned: bool = True) -> None:
        self.held = held
        self.versioned = versioned

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __dlpack__(self, **arguments: Any) -> Any:
        if not self.versioned:
            if "max_version" in arguments:
                raise TypeError("__dlpack__() got an unexpected keyword argument 'max_version'")
            return self.held.__dlpack__()
        return self.held.__dlpack__(**arguments)


def copied(x: Any) -> numpy.ndarray:
    """What Kiln sees in an array, as a NumPy array."""
    result = kiln.ops.copy(x)
    return result if isinstance(result, numpy.ndarray) else result.numpy()


def test_every_dtype_has_a_numpy_dtype() -> None:
    assert sorted(DTYPES) == sorted(dtype.name for dtype in kiln.DType)


@pytest.mark.parametrize("name", DTYPES)
def test_numpy_dtypes(name: str) -> None:
    x = numpy.arange(12).reshape(3, 4).astype(DTYPES[name])
    result = kiln.ops.copy(x)
    assert type(result) is numpy.ndarray and result.dtype == x.dtype and result.flags.writeable
    assert result.tobytes() == x.tobytes()
    assert kiln.DType(DTYPES[name]).name == name and kiln.DType[name].numpy == x.dtype


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x,
        lambda x: x.T,
        lambda x: x[::2, 1::3],
        lambda x: x[::-1, ::-2],
        lambda x: numpy.broadcast_to(x[:1], x.shape),
        lambda x: x[2:2],
        lambda x: x[0, 0, ...],
        lambda x: x[None, :, None],
    ],
)
def test_numpy_layouts(view: Any) -> None:
    x = view(numpy.arange(42, dtype=numpy.float32).reshape(6, 7))
    numpy.testing.assert_array_equal(kiln.ops.add(x, x), x + x)


def test_rows_of_nothing_have_no_strides_to_speak_of() -> None:
    cache, nothing = numpy.ones((4, 16), numpy.float32), numpy.empty((0, 16), numpy.float32)  # NumPy's strides are 0
    nowhere = numpy.full((1, 1, 2), -1)
    assert kiln.ops.sparse_kv_gather(cache, nothing, nowhere) is cache
    assert kiln.ops.kv_scatter(nothing, cache, nowhere) is nothing


def test_results_own_their_memory() -> None:
    x = numpy.arange(1000, dtype=numpy.float32)
    result = kiln.ops.add(x, x)
    tail = result[990:]
    del x, result
    gc.collect()
    numpy.testing.assert_array_equal(tail, numpy.arange(990, 1000, dtype=numpy.float32) * 2)


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize(
    "shape", [(), (0,), (3, 0, 2), (5,), (512,), (513,), (1024,), (1025,), (4096,), (4097,), (70, 70)]
)
def test_results_are_the_same_kind_of_array_whoever_allocates(name: str, shape: tuple[int, ...]) -> None:
    """NumPy makes small ones, Kiln large ones (4 KB)."""
    x = numpy.ones(shape).astype(DTYPES[name])
    resolved = kiln.resolve("copy", x)
    for result in (kiln.ops.copy(x), kiln.ops.copy(x), resolved(x)):  # planned, and found
        assert type(result) is numpy.ndarray and result.dtype == x.dtype and result.shape == shape
        assert result.flags.c_contiguous and result.flags.writeable and result.flags.aligned
        assert not numpy.shares_memory(result, x) and result.tobytes() == x.tobytes()
        result[...] = 0
    assert x.tobytes() == numpy.ones(shape).astype(DTYPES[name]).tobytes()


def test_subclasses_and_memory_maps(tmp_path: Any) -> None:
    mapped = numpy.memmap(tmp_path / "x", dtype=numpy.float32, mode="w+", shape=(5,))
    mapped[:] = 3
    result = kiln.ops.add(mapped, mapped)
    assert type(result) is numpy.ndarray
    numpy.testing.assert_array_equal(result, numpy.full(5, 6, numpy.float32))
    with pytest.warns(PendingDeprecationWarning):
        matrix = numpy.matrix([[1, 2], [3, 4]], numpy.float32)
    result = kiln.ops.add(matrix, matrix)
    assert type(result) is numpy.ndarray
    numpy.testing.assert_array_equal(result, numpy.array([[2, 4], [6, 8]], numpy.float32))


def test_buffers_go_through_numpy() -> None:
    expected = numpy.array([1, 2, 3], numpy.float32)
    for x in (array.array("f", [1, 2, 3]), memoryview(array.array("f", [1, 2, 3])), (ctypes.c_float * 3)(1, 2, 3)):
        result = kiln.ops.copy(x)
        assert type(result) is numpy.ndarray
        numpy.testing.assert_array_equal(result, expected)


def test_a_memoryview_is_written() -> None:
    out = array.array("f", [0, 0, 0])
    assert kiln.ops.copy(numpy.array([1, 2, 3], numpy.float32), out=out) is out
    assert list(out) == [1, 2, 3]


@pytest.mark.parametrize("versioned", [True, False])
def test_unknown_producers(versioned: bool) -> None:
    x = numpy.arange(6, dtype=numpy.float32).reshape(2, 3)
    result = kiln.ops.add(Producer(x, versioned), Producer(x, versioned))
    assert type(result) is kiln.Tensor and result.shape == (2, 3) and result.dtype is kiln.DType.f32
    numpy.testing.assert_array_equal(result.numpy(), x + x)


def test_a_producer_is_let_go_of() -> None:
    x = numpy.arange(6, dtype=numpy.float32)
    gone = weakref.ref(x)
    copied(Producer(x))
    del x
    gc.collect()
    assert gone() is None


def test_a_read_only_producer_is_no_output() -> None:
    x = numpy.zeros(3, numpy.float32)
    x.flags.writeable = False
    numpy.testing.assert_array_equal(copied(Producer(x)), x)
    with pytest.raises(ValueError, match="output 'out' is read-only"):
        kiln.ops.copy(numpy.ones(3, numpy.float32), out=Producer(x))


def test_tensor_is_an_array() -> None:
    tensor = kiln.empty((2, 3), "float32")
    assert (tensor.shape, tensor.strides, tensor.dtype) == ((2, 3), (3, 1), kiln.DType.f32)
    assert (tensor.device, tensor.ndim, tensor.size, tensor.nbytes, len(tensor)) == ("cpu", 2, 6, 24, 2)
    view = numpy.asarray(tensor)
    view[:] = 7
    assert view.ctypes.data == tensor.data_ptr == numpy.from_dlpack(tensor).ctypes.data
    assert (tensor.numpy() == 7).all()
    assert type(kiln.ops.add(tensor, tensor)) is kiln.Tensor
    assert kiln.ops.add(tensor, view, out=tensor) is tensor and (view == 14).all()
    assert numpy.array(tensor, dtype=numpy.int32, copy=True).dtype == numpy.int32


@pytest.mark.parametrize("view_of", [lambda tensor: tensor.numpy(), numpy.from_dlpack, numpy.asarray])
def test_tensor_memory_outlives_it(view_of: Any) -> None:
    expected = numpy.arange(5, dtype=numpy.int64)
    view = view_of(kiln.to_device(expected, "cpu"))
    gc.collect()
    kiln.empty(5, "i64").numpy()[:] = -1  # would land in memory that was let go of
    numpy.testing.assert_array_equal(view, expected)


def test_tensor_speaks_both_versions_of_dlpack() -> None:
    tensor = kiln.empty(3, "f32")
    assert "dltensor_versioned" in repr(tensor.__dlpack__(max_version=(1, 0)))
    assert '"dltensor"' in repr(tensor.__dlpack__()) and '"dltensor"' in repr(tensor.__dlpack__(max_version=(0, 8)))
    assert tensor.__dlpack_device__() == (1, 0)
    refused(ValueError, "has no stream", lambda: tensor.__dlpack__(stream=3))
    with pytest.raises(AttributeError):
        _ = tensor.__cuda_array_interface__


def test_a_cuda_interface_is_looked_at() -> None:
    class Array:
        __cuda_array_interface__: ClassVar = {
            "shape": (2, 3),
            "strides": (4, 8),
            "typestr": "<f4",
            "data": (4096, False),
            "version": 3,
        }

    with pytest.raises(ValueError, match="0x1000, which is no memory of a GPU"):  # on a GPU it would be a fault
        kiln.infer_outputs("add", Array(), Array())
    Array.__cuda_array_interface__["typestr"] = "<c8"
    refused(TypeError, "typestr '<c8'", lambda: kiln.infer_outputs("add", Array(), Array()))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda x: x.tolist(), TypeError, r"input 'x': expected an array, got list; numpy.asarray"),
        (lambda x: x.astype(object), TypeError, "holds Python objects"),
        (lambda x: x.astype(">f4"), TypeError, "other machine's order"),
        (lambda x: x.astype(numpy.complex64), TypeError, "complex"),
        (lambda x: x.astype("datetime64[s]"), TypeError, "int64"),
        (lambda x: numpy.ma.masked_array(x, mask=x > 3), TypeError, "masked"),
        (lambda x: x.astype([("a", "f4"), ("b", "f4")]), TypeError, "structured"),
        (lambda x: x.astype([("a", "f4"), ("b", "i2")])["a"], ValueError, "no multiple of the 4 bytes"),
        (lambda x: numpy.frombuffer(b"x" * 49, numpy.float32, 12, 1).reshape(3, 4), ValueError, "aligned"),
        (lambda x: x.reshape((1,) * 11 + (3, 4)), ValueError, "13 dimensions"),
        (lambda x: "text", TypeError, "got str"),
        (lambda x: b"text", TypeError, "got bytes"),
        (lambda x: numpy.float32(1), TypeError, "got numpy.float32"),
        (lambda x: object(), TypeError, "got object"),
        (lambda x: numpy.ndarray, TypeError, "got type"),
    ],
)
def test_what_is_no_tensor(make: Any, error: type[Exception], message: str) -> None:
    x = numpy.arange(12, dtype=numpy.float32).reshape(3, 4)
    with pytest.raises(error, match=message) as caught:
        kiln.ops.add(make(x), x)
    assert isinstance(caught.value, kiln.UsageError) and "op 'add': input 'x'" in str(caught.value)


def test_numbers_are_attributes() -> None:
    x = numpy.ones(3, numpy.float32)
    numpy.testing.assert_array_equal(kiln.ops.add(x, other=2.0), x + 2)
    numpy.testing.assert_array_equal(kiln.ops.add(x, other=numpy.float32(2)), x + 2)
    numpy.testing.assert_array_equal(kiln.ops.add(x, y=x), x + x)
    refused(TypeError, "other=2.0", lambda: kiln.ops.add(x, 2.0))
    refused(TypeError, "attributes go by name: dim=", lambda: kiln.ops.softmax(x, 0))


def test_a_device_array_is_no_attribute() -> None:
    x = numpy.ones(3, numpy.float32)
    refused(TypeError, "array.item", lambda: kiln.ops.add(x, x, alpha=numpy.ones(())))


def test_repeated_inputs() -> None:
    x, y = numpy.ones((2, 3), numpy.float32), numpy.zeros((1, 3), numpy.float32)
    expected = numpy.concatenate([x, y, x])
    for result in (kiln.ops.concat(x, y, x), kiln.ops.concat([x, y, x]), kiln.ops.concat((x, y, x), dim=0)):
        numpy.testing.assert_array_equal(result, expected)
    refused(TypeError, "expected an array, got float", lambda: kiln.ops.concat([1.0, 2.0]))


def test_ops_without_inputs_say_where() -> None:
    result = kiln.ops.uniform(size=[3, 4], seed=1)
    assert type(result) is numpy.ndarray and result.shape == (3, 4) and result.dtype == numpy.float32
    numpy.testing.assert_array_equal(kiln.ops.uniform(size=(3, 4), seed=1, device="cpu"), result)
    out = numpy.empty((3, 4), numpy.float32)
    assert kiln.ops.uniform(size=[3, 4], seed=1, out=out) is out
    numpy.testing.assert_array_equal(out, result)


def test_lists_of_repeated_inputs_wherever_calls_are_described() -> None:
    x = numpy.ones((2, 3), numpy.float32)
    meta = kiln.TensorMeta("f32", (2, 3))
    expected = [kiln.TensorMeta("f32", (4, 3))]
    assert kiln.infer_outputs("concat", [x, x]) == kiln.infer_outputs("concat", (meta, meta)) == expected
    assert kiln.infer_outputs("concat", meta, meta) == expected
    listed = kiln.inspect("concat", [x, x], emit="plan")
    assert listed == kiln.inspect("concat", x, x, emit="plan")
    assert kiln.benchmark("concat", [x, x], samples=3) is not None


def test_resolved_ops_without_inputs_know_where(gpu: str) -> None:
    made = kiln.resolve("uniform", size=[100], seed=1, device=f"{gpu}:0")()
    assert isinstance(made, kiln.Tensor) and made.device == f"{gpu}:0"
    numpy.testing.assert_array_equal(made.numpy(), kiln.ops.uniform(size=[100], seed=1, device=f"{gpu}:0").numpy())
