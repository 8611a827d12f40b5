"""Kiln's ops inside torch.cuda.graph."""

from __future__ import annotations

from typing import Any

import kiln
import pytest

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def _needs_gpu(gpu: str) -> None:
    """Every test here does."""


class FiveOps:
    """Matrix product with bias, activation, normalisation, softmax, sum."""

    def __init__(self) -> None:
        self.x = torch.randn(64, 256, device="cuda")
        self.weight, self.bias = torch.randn(128, 256, device="cuda") / 16, torch.randn(128, device="cuda")
        self.scale = torch.randn(128, device="cuda")

    def kiln(self) -> Any:
        hidden = kiln.ops.gelu(kiln.ops.linear(self.x, self.weight, self.bias))
        normed = kiln.ops.rms_norm(hidden, self.scale)
        return kiln.ops.sum(kiln.ops.softmax(normed, dim=-1), dim=0)

    def custom_ops(self) -> Any:
        import kiln.torch as ops

        hidden = ops.gelu(ops.linear(self.x, self.weight, self.bias))
        return ops.sum(ops.softmax(ops.rms_norm(hidden, self.scale), dim=-1), dim=0)

    def torch(self) -> Any:
        hidden = torch.nn.functional.gelu(torch.nn.functional.linear(self.x, self.weight, self.bias))
        normed = torch.nn.functional.rms_norm(hidden, (128,), self.scale)
        return torch.softmax(normed, dim=-1).sum(dim=0)


def capture(call: Any) -> tuple[Any, Any]:
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # compiles and loads what the call needs
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = call()
    return graph, result


@pytest.mark.parametrize("through", ["kiln", "custom_ops"])
def test_five_ops_replay(through: str) -> None:
    ops = FiveOps()
    graph, result = capture(getattr(ops, through))
    for _ in range(10):
        ops.x.copy_(torch.randn_like(ops.x))
        ops.bias.copy_(torch.randn_like(ops.bias))
        result.fill_(float("nan"))
        graph.replay()
        torch.cuda.synchronize()
        torch.testing.assert_close(result, ops.torch(), rtol=2e-3, atol=2e-3)  # linear may use tf32
        assert torch.equal(result, getattr(ops, through)())


def test_given_outputs_replay() -> None:
    x, out = torch.randn(1000, device="cuda"), torch.empty(1000, device="cuda")
    graph, result = capture(lambda: kiln.ops.add(x, other=1.0, out=out))
    assert result is out
    for _ in range(5):
        x.copy_(torch.randn_like(x))
        out.fill_(float("nan"))
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(out, x + 1)


def test_a_resolved_op_replays() -> None:
    x, out = torch.randn(1000, device="cuda"), torch.empty(1000, device="cuda")
    resolved = kiln.resolve("mul", x, x, out=out)
    graph, _ = capture(lambda: resolved(x, x, out=out))
    x.copy_(torch.randn_like(x))
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(out, x * x)


def test_changed_inputs_replay() -> None:
    source, cache = torch.randn(50, 64, device="cuda"), torch.zeros(10, 64, device="cuda")
    pairs = torch.tensor([[[7, 0], [20, 3]]], device="cuda")
    graph, _ = capture(lambda: kiln.ops.sparse_kv_gather(cache, source, pairs))
    pairs.copy_(torch.tensor([[[9, 1], [49, 8]]]))
    cache.zero_()
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(cache[[1, 8]], source[[9, 49]]) and not cache[[0, 3]].any()


def test_a_compiled_function_in_a_graph() -> None:
    ops = FiveOps()
    compiled = torch.compile(ops.custom_ops, fullgraph=True, mode="reduce-overhead")
    for _ in range(4):
        result = compiled().clone()
    torch.testing.assert_close(result, ops.torch(), rtol=2e-3, atol=2e-3)


def test_a_cold_call_is_refused_and_leaves_the_process_working() -> None:
    x = torch.randn(12, 345, device="cuda", dtype=torch.float64)
    graph = torch.cuda.CUDAGraph()
    with pytest.raises(kiln.UsageError, match="captur"):
        with torch.cuda.graph(graph):
            kiln.ops.expm1(x)
    torch.cuda.synchronize()
    torch.testing.assert_close(kiln.ops.expm1(x), torch.expm1(x))
    graph, result = capture(lambda: kiln.ops.expm1(x))
    graph.replay()
    torch.cuda.synchronize()
    torch.testing.assert_close(result, torch.expm1(x))
