#!/usr/bin/env python3
"""Kiln on torch tensors: on a GPU where there is one, else on the CPU.

python examples/torch_gpu.py
"""

import sys
import time

try:
    import torch
except ImportError:
    sys.exit("this example needs PyTorch: pip install torch")

import kiln
import kiln.torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def synchronize() -> None:
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def layer(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Three of Kiln's ops as torch custom ops, for torch.compile and CUDA graphs."""
    return kiln.torch.softmax(kiln.torch.rms_norm(kiln.torch.linear_relu(x, weight, bias)), dim=-1)


def median_us(call, samples: int = 50) -> float:
    times = []
    for _ in range(samples):
        synchronize()
        started = time.perf_counter()
        call()
        synchronize()
        times.append((time.perf_counter() - started) * 1e6)
    return sorted(times)[samples // 2]


def main() -> None:
    print(
        f"torch {torch.__version__} on {torch.cuda.get_device_name() if DEVICE == 'cuda' else 'the CPU: no GPU here'}"
    )
    torch.manual_seed(7)
    x = torch.randn(256, 512, device=DEVICE)
    weight, bias = torch.randn(384, 512, device=DEVICE) / 23, torch.randn(384, device=DEVICE)

    # By name. Results are torch tensors: torch's allocator owns them, and the call is on torch's current stream.
    total = kiln.dispatch_gpu_op("add", x, x, alpha=0.5)
    torch.testing.assert_close(total, 1.5 * x)

    # Views are read and written where they are.
    stripes = torch.zeros(256, 1024, device=DEVICE)
    kiln.ops.exp(x, out=stripes[:, ::2])
    torch.testing.assert_close(stripes[:, ::2], x.exp())

    # Bound to shapes once; calling it looks nothing up.
    out = torch.empty_like(x)
    add = kiln.resolve("add", x, x, out=out)
    add(x, x, out=out)
    print(f"add runs as {add.report.variant} with {add.report.config}")

    with torch.no_grad():
        expected = torch.nn.functional.rms_norm(torch.relu(torch.nn.functional.linear(x, weight, bias)), (384,))
        expected = torch.softmax(expected, dim=-1)
        torch.testing.assert_close(layer(x, weight, bias), expected, rtol=5e-3, atol=1e-4)
        print("three ops agree with torch's")

        compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
        torch.testing.assert_close(compiled(x, weight, bias), layer(x, weight, bias))
        print("torch.compile keeps them in one graph")

        rows = {"kiln": lambda: layer(x, weight, bias), "compiled": lambda: compiled(x, weight, bias)}
        if DEVICE == "cuda":
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                captured = layer(x, weight, bias)
            x.copy_(torch.randn_like(x))
            graph.replay()
            torch.testing.assert_close(captured, layer(x, weight, bias))
            print("a CUDA graph replays them on new data")
            rows["graph replay"] = graph.replay
        for name, call in rows.items():
            print(f"{name:12} {median_us(call):8.1f} us for the three, waiting for the device")


if __name__ == "__main__":
    main()
