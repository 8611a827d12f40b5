#!/usr/bin/env python3
"""Recognises handwritten digits with a network of three Kiln ops: linear_relu, linear, softmax.

The images are scikit-learn's 1797 scanned digits of 8 x 8 pixels. The 64-128-10 network is trained here, in NumPy, on
three quarters of them; the rest, which it never saw, goes through Kiln. Ops are tuned the first time, for seconds; later
runs find the choice in the cache. It runs on the CPU, and on a GPU too where there is one.

    python examples/digits.py [--device cpu|cuda|all] [--picture digits.png]
"""

from __future__ import annotations

import argparse
import os
import pathlib
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import kiln
import numpy as np
from sklearn.datasets import load_digits

HIDDEN, CLASSES = 128, 10
EPOCHS, BATCH, LEARNING_RATE = 40, 64, 0.2
MIN_ACCURACY = 0.93
WARM_UP_CALLS, TIMED_CALLS = 20, 200

Weights = list[np.ndarray]


def load_images(random: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Training images and labels, then test images and labels; an image is 64 numbers from 0 to 1."""
    digits = load_digits()
    order = random.permutation(len(digits.target))
    images = (digits.data[order] / 16.0).astype(np.float32)
    labels = digits.target[order]
    split = len(order) * 3 // 4
    return images[:split], labels[:split], images[split:], labels[split:]


def softmax(scores: np.ndarray) -> np.ndarray:
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def forward_numpy(x: np.ndarray, weights: Weights) -> np.ndarray:
    """The probabilities of the ten digits, one row per image."""
    w1, b1, w2, b2 = weights
    return softmax(np.maximum(x @ w1.T + b1, 0) @ w2.T + b2)


def forward_kiln(x: Any, weights: list[Any]) -> Any:
    """The same through Kiln, on the device that holds the arguments."""
    w1, b1, w2, b2 = weights
    hidden = kiln.dispatch_gpu_op("linear_relu", x, w1, b1)
    scores = kiln.dispatch_gpu_op("linear", hidden, w2, b2)
    return kiln.dispatch_gpu_op("softmax", scores, dim=-1)


def train(images: np.ndarray, labels: np.ndarray, random: np.random.Generator) -> Weights:
    """Plain stochastic gradient descent on the cross entropy."""
    pixels = images.shape[1]
    w1 = (random.standard_normal((HIDDEN, pixels)) * np.sqrt(2 / pixels)).astype(np.float32)
    w2 = (random.standard_normal((CLASSES, HIDDEN)) * np.sqrt(1 / HIDDEN)).astype(np.float32)
    b1, b2 = np.zeros(HIDDEN, np.float32), np.zeros(CLASSES, np.float32)
    wanted = np.eye(CLASSES, dtype=np.float32)[labels]
    for _ in range(EPOCHS):
        order = random.permutation(len(images))
        for start in range(0, len(order), BATCH):
            rows = order[start : start + BATCH]
            x = images[rows]
            hidden = np.maximum(x @ w1.T + b1, 0)
            d_scores = (softmax(hidden @ w2.T + b2) - wanted[rows]) / len(rows)
            d_hidden = (d_scores @ w2) * (hidden > 0)
            w2 -= LEARNING_RATE * d_scores.T @ hidden
            b2 -= LEARNING_RATE * d_scores.sum(axis=0)
            w1 -= LEARNING_RATE * d_hidden.T @ x
            b1 -= LEARNING_RATE * d_hidden.sum(axis=0)
    return [w1, b1, w2, b2]


def calls_of(x: Any, weights: list[Any]) -> list[tuple[str, tuple[Any, ...], dict[str, Any]]]:
    """The network's calls on these tensors, for tuning them one by one."""
    w1, b1, w2, b2 = weights
    hidden = kiln.dispatch_gpu_op("linear_relu", x, w1, b1)
    scores = kiln.dispatch_gpu_op("linear", hidden, w2, b2)
    return [("linear_relu", (x, w1, b1), {}), ("linear", (hidden, w2, b2), {}), ("softmax", (scores,), {"dim": -1})]


def tune(batches: dict[int, Any], weights: list[Any], budget_s: float) -> None:
    """Finds each call's fastest config, unless the tuning database has it."""
    known = []
    for size, x in batches.items():
        for name, tensors, attributes in calls_of(x, weights):
            what = f"{name} x{size}"
            if kiln.resolve(name, *tensors, **attributes).report.config_source == "tuned":
                known.append(what)
                continue
            table = kiln.autotune(name, *tensors, budget_s=budget_s, progress=True, **attributes)
            print(f"  tuned {what}: {table.gain:.2f} times the default's speed, {table.elapsed_s:.1f} s")
    if known:
        print(f"  tuned before, found in the cache: {', '.join(known)}")


def seconds_per_call(function: Callable[[], object]) -> float:
    """The median of many."""
    for _ in range(WARM_UP_CALLS):
        function()
    times = []
    for _ in range(TIMED_CALLS):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def save_picture(path: pathlib.Path, images: np.ndarray, labels: np.ndarray, predictions: np.ndarray) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(4, 8, figsize=(8, 4.6), layout="constrained")
    for axis, image, label, prediction in zip(axes.flat, images, labels, predictions):
        axis.imshow(image.reshape(8, 8), cmap="gray_r")
        axis.set_title(str(prediction), color="black" if prediction == label else "red")
        axis.set_axis_off()
    figure.suptitle("Handwritten digits, and what the network takes them for (red: wrong)")
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def cache_directory() -> pathlib.Path:
    """Where Kiln keeps compiled kernels and tuned configs."""
    fallback = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "kiln"
    return pathlib.Path(os.environ.get("KILN_CACHE_DIR") or fallback)


def run_on(device: str, images: np.ndarray, labels: np.ndarray, weights: Weights, budget_s: float) -> np.ndarray:
    """Tunes, checks and times the network on a device; returns what it takes the images for."""
    is_cuda = device.startswith("cuda")
    place = (lambda array: kiln.to_device(array, device)) if is_cuda else (lambda array: array)
    batches = {1: place(images[:1]), len(images): place(images)}
    placed = [place(weight) for weight in weights]
    name = next(info["name"] for info in kiln.devices() if info["device"] == device)
    print(f"{device} ({name})")
    tune(batches, placed, budget_s)

    result = forward_kiln(batches[len(images)], placed)
    probabilities = result.numpy() if is_cuda else result
    predictions = probabilities.argmax(axis=1)
    expected = forward_numpy(images, weights)
    if not np.allclose(probabilities, expected, rtol=1e-3, atol=1e-5):
        sys.exit(f"digits: {device}: the probabilities differ from NumPy's by {abs(probabilities - expected).max()}")
    if not np.array_equal(predictions, expected.argmax(axis=1)):
        sys.exit(f"digits: {device}: the predictions differ from NumPy's")
    accuracy = float((predictions == labels).mean())
    print(f"  accuracy {accuracy:.1%} on {len(images)} images it never saw; predictions equal to NumPy's")
    if accuracy < MIN_ACCURACY:
        sys.exit(f"digits: an accuracy of {accuracy:.1%} is less than the {MIN_ACCURACY:.0%} that this network reaches")

    for size, x in batches.items():
        host = images[:size]

        def kiln_call(x: Any = x) -> None:
            forward_kiln(x, placed)
            if is_cuda:
                kiln.synchronize(device)

        kiln_s = seconds_per_call(kiln_call)
        numpy_s = seconds_per_call(lambda host=host: forward_numpy(host, weights))
        print(
            f"  batch {size:3}: Kiln {size / kiln_s:12,.0f} images/s ({kiln_s * 1e6:6.1f} us), "
            f"NumPy on the CPU {size / numpy_s:12,.0f} images/s ({numpy_s * 1e6:6.1f} us)"
        )
    return predictions


def devices_for(wanted: str) -> list[str]:
    present = [info["device"] for info in kiln.devices()]
    cuda = [device for device in present if device.startswith("cuda")][:1]
    if wanted == "cuda" and not cuda:
        sys.exit("digits: --device cuda: there is no usable GPU here; `kiln doctor` says why. Use --device cpu")
    return {"cpu": ["cpu"], "cuda": cuda, "all": ["cpu", *cuda]}[wanted]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--device", choices=("cpu", "cuda", "all"), default="all", help="all: the CPU, and a GPU if any"
    )
    parser.add_argument("--picture", type=pathlib.Path, default=pathlib.Path("digits.png"), help="the PNG to write")
    parser.add_argument("--tuning-budget", type=float, default=1.5, metavar="SECONDS", help="at most, for each call")
    parser.add_argument("--seed", type=int, default=0, help="of the split, the weights and the training")
    arguments = parser.parse_args()
    if not arguments.tuning_budget > 0:
        parser.error(f"--tuning-budget is {arguments.tuning_budget}; expected a number of seconds above 0")
    if not arguments.picture.absolute().parent.is_dir():
        parser.error(f"--picture is {arguments.picture}, in a folder that does not exist")
    devices = devices_for(arguments.device)

    random = np.random.default_rng(arguments.seed)
    train_images, train_labels, images, labels = load_images(random)
    start = time.perf_counter()
    weights = train(train_images, train_labels, random)
    print(f"trained 64-{HIDDEN}-{CLASSES} in NumPy on {len(train_images)} images, {time.perf_counter() - start:.1f} s")

    for device in devices:
        predictions = run_on(device, images, labels, weights, arguments.tuning_budget)
    save_picture(arguments.picture, images, labels, predictions)
    print(f"picture: {arguments.picture.absolute()}")
    print(f"kernels and tuned configs: {cache_directory()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
