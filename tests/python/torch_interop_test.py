"""Tensors of torch, JAX and whatever speaks DLPack: no copies, the caller's kind back, its streams and allocator."""

from __future__ import annotations

from typing import Any

import kiln
import numpy
import pytest


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


@pytest.fixture
def jax() -> Any:
    return pytest.importorskip("jax")


def test_torch_in_torch_out(torch: Any) -> None:
    x, y = torch.randn(33, 65), torch.randn(33, 65)
    result = kiln.ops.add(x, y)
    assert type(result) is torch.Tensor and result.device == x.device and result.is_contiguous()
    assert torch.equal(result, x + y)


def test_several_results_are_a_tuple(torch: Any) -> None:
    x = torch.randn(10, 20)
    values, indices = kiln.ops.max(x, dim=1)
    expected = torch.max(x, dim=1)
    assert torch.equal(values, expected.values) and torch.equal(indices, expected.indices)


def test_given_memory_is_written(torch: Any) -> None:
    x = torch.randn(8, 6)
    whole = torch.zeros(8, 12)
    out = whole[:, ::2]
    assert kiln.ops.mul(x, other=2.0, out=out) is out
    assert torch.equal(whole[:, ::2], 2 * x) and not whole[:, 1::2].any()


@pytest.mark.parametrize("view", ["transposed", "stepped", "expanded", "shifted", "empty", "scalar", "channels_last"])
def test_views_are_read_in_place(torch: Any, view: str) -> None:
    base = torch.randn(6, 8, 5, 4)
    x = {
        "transposed": base.transpose(0, 2),
        "stepped": base[::2, 1::3],
        "expanded": base[:, :1].expand(6, 8, 5, 4),
        "shifted": base.flatten()[3:],
        "empty": base[:0],
        "scalar": base[0, 0, 0, 0],
        "channels_last": base.contiguous(memory_format=torch.channels_last),
    }[view]
    assert torch.equal(kiln.ops.neg(x), -x)


def test_dtypes_go_and_come(torch: Any) -> None:
    from kiln.torch_library import TORCH_DTYPES

    for name, dtype in TORCH_DTYPES.items():
        x = torch.ones(7).to(dtype)
        result = kiln.ops.copy(x)
        assert result.dtype == dtype, name
        assert torch.equal(result.view(torch.uint8), x.view(torch.uint8)), name
        assert kiln.ops.cast(x, dtype=torch.float64).dtype == torch.float64
        assert kiln.ops.cast(torch.ones(3), dtype=dtype).dtype == dtype


def test_parameters_are_inputs_where_nothing_is_recorded(torch: Any) -> None:
    weight = torch.nn.Parameter(torch.randn(5, 3))
    x = torch.randn(2, 3)
    with pytest.raises(kiln.UsageError, match=r"detach\(\)"):
        kiln.ops.linear(x, weight)
    with torch.no_grad():
        expected = torch.nn.functional.linear(x, weight)
        torch.testing.assert_close(kiln.ops.linear(x, weight), expected)
    with torch.inference_mode():
        torch.testing.assert_close(kiln.ops.linear(x, weight), expected)
    torch.testing.assert_close(kiln.ops.linear(x, weight.detach()), expected)


def test_the_first_tensor_says_what_comes_back(torch: Any) -> None:
    array, tensor = numpy.ones(5, numpy.float32), torch.ones(5)
    assert isinstance(kiln.ops.add(array, tensor), numpy.ndarray)
    assert isinstance(kiln.ops.add(tensor, array), torch.Tensor)


def test_subclasses_of_tensors(torch: Any) -> None:
    class Named(torch.Tensor):
        pass

    x = torch.randn(5).as_subclass(Named)
    assert torch.equal(torch.as_tensor(kiln.ops.neg(x)).as_subclass(torch.Tensor), -x.as_subclass(torch.Tensor))


def test_jax_in_jax_out(jax: Any) -> None:
    x = jax.numpy.arange(12, dtype="float32").reshape(3, 4)
    result = kiln.ops.mul(x, other=2.0)
    assert isinstance(result, jax.Array)
    numpy.testing.assert_array_equal(numpy.asarray(result), numpy.asarray(x) * 2)


def test_jax_arrays_are_never_written(jax: Any) -> None:
    x, out = jax.numpy.ones(4), jax.numpy.zeros(4)
    with pytest.raises((TypeError, ValueError, BufferError), match="out"):
        kiln.ops.exp(x, out=out)
    assert not numpy.asarray(out).any()


class Exporter:
    """An array of a library that Kiln has never heard of."""

    def __init__(self, array: numpy.ndarray) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


class OldExporter(Exporter):
    """As DLPack's first version has it: no keyword but stream."""

    def __dlpack__(self, stream: Any = None) -> Any:  # type: ignore[override]
        return self.array.__dlpack__()


@pytest.mark.parametrize("kind", [Exporter, OldExporter])
def test_any_dlpack_array(kind: type[Exporter]) -> None:
    x = numpy.arange(6, dtype=numpy.float32)
    result = kiln.ops.mul(kind(x), other=2.0)
    assert isinstance(result, kiln.Tensor)
    numpy.testing.assert_array_equal(numpy.from_dlpack(result), x * 2)
    out = numpy.zeros(6, numpy.float32)
    given = kind(out)
    assert kiln.ops.exp2(kind(x), out=given) is given
    numpy.testing.assert_array_equal(out, 2**x)


def test_kiln_tensors_go_to_torch(torch: Any) -> None:
    x = kiln.empty((4, 5), "f32", "cpu")
    kiln.ops.fill(x, value=3.0, out=x)
    tensor = torch.from_dlpack(x)
    assert tensor.shape == (4, 5) and (tensor == 3).all()
    tensor[0] = 7
    assert kiln.ops.sum(x).numpy() == 4 * 5 * 3 + 5 * 4


def test_results_on_a_gpu_are_the_callers_allocators(gpu: str, torch: Any) -> None:
    x = torch.randn(1 << 18, device=gpu)
    kiln.ops.exp(x)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    result = kiln.ops.exp(x)
    assert torch.cuda.memory_allocated() - before == x.numel() * 4
    torch.testing.assert_close(result, torch.exp(x))
    del result
    torch.cuda.synchronize()
    assert torch.cuda.memory_allocated() == before


def test_the_current_stream_is_used(gpu: str, torch: Any) -> None:
    """Behind long work on a side stream: on another stream the call would read x too early."""
    x = torch.zeros(1 << 16, device=gpu)
    kiln.ops.add(x, other=1.0)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.cuda._sleep(50_000_000)
        x.fill_(5)
        result = kiln.ops.add(x, other=1.0)
        assert not side.query()
    side.synchronize()
    assert (result == 6).all()


@pytest.mark.parametrize("spelling", ["object", "handle"])
def test_a_given_stream_is_used(gpu: str, torch: Any, spelling: str) -> None:
    x, out = torch.zeros(1 << 16, device=gpu), torch.zeros(1 << 16, device=gpu)
    kiln.ops.add(x, other=1.0, out=out)
    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        torch.cuda._sleep(50_000_000)
        x.fill_(5)
    kiln.ops.add(x, other=1.0, out=out, stream=side if spelling == "object" else side.cuda_stream)
    side.synchronize()
    assert (out == 6).all()


def test_cuda_array_interface(gpu: str, torch: Any) -> None:
    class Interface:
        def __init__(self, tensor: Any) -> None:
            self.tensor = tensor
            self.__cuda_array_interface__ = tensor.__cuda_array_interface__

    x = torch.randn(100, device=gpu)
    out = torch.zeros(100, device=gpu)
    kiln.ops.exp(Interface(x), out=out)
    torch.cuda.synchronize()
    torch.testing.assert_close(out, torch.exp(x))
    result = kiln.ops.exp(Interface(x))
    assert isinstance(result, kiln.Tensor)
    kiln.synchronize()
    torch.testing.assert_close(torch.from_dlpack(result), torch.exp(x))


def test_pinned_memory_beside_a_gpu(gpu: str, torch: Any) -> None:
    source = torch.randn(100, 64).pin_memory()
    cache = torch.zeros(10, 64, device=gpu)
    pairs = torch.tensor([[[7, 0], [50, 3], [99, 9]]], device=gpu)
    assert kiln.ops.sparse_kv_gather(cache, source, pairs) is cache
    assert torch.equal(cache[[0, 3, 9]].cpu(), source[[7, 50, 99]])


def test_results_as_torchs_on_a_gpu(gpu: str, torch: Any) -> None:
    x, weight, bias = (torch.randn(*shape, device=gpu) for shape in ((64, 128), (32, 128), (32,)))
    torch.testing.assert_close(
        kiln.ops.linear(x, weight, bias, precision="ieee") if has_precision() else kiln.ops.linear(x, weight, bias),
        torch.nn.functional.linear(x, weight, bias),
        rtol=1e-3,
        atol=1e-3,
    )


def has_precision() -> bool:
    return any(attribute.name == "precision" for attribute in kiln.op("linear").spec.attributes)


def autograd_notices(torch: Any, change: Any) -> bool:
    """Whether a backward pass raises that needs the contents from before `change(saved)`."""
    saved = torch.zeros(4, 8)
    weight = torch.ones(4, 8, requires_grad=True)
    product = (weight * saved).sum()
    with torch.no_grad():
        change(saved)
    try:
        product.backward()
    except RuntimeError as error:
        assert "modified by an inplace operation" in str(error)
        return True
    return False


def test_autograd_notices_what_calls_change(torch: Any) -> None:
    x, pairs = torch.ones(4, 8), torch.tensor([[0, 1]])
    assert autograd_notices(torch, lambda saved: kiln.ops.exp(x, out=saved))
    assert autograd_notices(torch, lambda saved: kiln.resolve("exp", x, out=saved)(x, out=saved))
    assert autograd_notices(torch, lambda saved: kiln.ops.swap_blocks(saved, x, pairs))
    assert not autograd_notices(torch, lambda saved: kiln.ops.exp(saved))


def test_tensors_of_inference_mode_are_written(torch: Any) -> None:
    with torch.inference_mode():
        out = torch.zeros(5)
    x = torch.ones(5)
    assert torch.equal(kiln.ops.neg(x, out=out), -x)
    with torch.inference_mode():
        assert torch.equal(kiln.ops.add(x, x, out=out), x + x)


def test_the_current_stream_is_that_of_any_torch_tensor(gpu: str, torch: Any) -> None:
    x, y = kiln.to_device(numpy.ones(1 << 16, numpy.float32), f"{gpu}:0"), torch.zeros(1 << 16, device=gpu)
    out = torch.zeros(1 << 16, device=gpu)
    kiln.ops.add(x, y, out=out)
    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        torch.cuda._sleep(50_000_000)
        y.fill_(5)
        kiln.ops.add(x, y, out=out)
    side.synchronize()
    assert (out == 6).all()


def test_a_kiln_tensor_of_another_stream_is_waited_for(gpu: str, torch: Any) -> None:
    x = torch.zeros(1 << 16, device=gpu)
    first, second = torch.cuda.Stream(), torch.cuda.Stream()
    kiln.ops.add(x, other=1.0)
    torch.cuda.synchronize()
    between = kiln.empty(1 << 16, "f32", f"{gpu}:0", stream=first)
    with torch.cuda.stream(first):
        torch.cuda._sleep(50_000_000)
        x.fill_(5)
        kiln.ops.add(x, other=1.0, out=between)
    out = torch.zeros(1 << 16, device=gpu)
    torch.cuda.current_stream().synchronize()
    kiln.ops.add(between, other=1.0, out=out, stream=second)
    second.synchronize()
    assert (out == 7).all()
