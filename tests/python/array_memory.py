"""Arrays in guarded memory, laid out in every way a tensor can be, as NumPy arrays or torch tensors."""

from __future__ import annotations

import dataclasses
from typing import Any

import kiln
import numpy

try:
    import ml_dtypes
except ImportError:  # the dtypes that NumPy itself lacks are then left out
    ml_dtypes = None

GUARD_BYTES = 256
POISON = 0xA5
NUMPY_NAMES = {
    "f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "fp8e4m3": "float8_e4m3fn",
    "fp8e5m2": "float8_e5m2", "i64": "int64", "i32": "int32", "i16": "int16", "i8": "int8",
    "u64": "uint64", "u32": "uint32", "u16": "uint16", "u8": "uint8", "bool": "bool",
}  # fmt: skip


def numpy_dtype(dtype: kiln.DType) -> numpy.dtype[Any] | None:
    """None for a dtype that this Python has no package for."""
    name = NUMPY_NAMES[kiln_name(dtype)]
    if hasattr(numpy, name):
        return numpy.dtype(name)
    return numpy.dtype(getattr(ml_dtypes, name)) if ml_dtypes else None


def kiln_name(dtype: kiln.DType) -> str:
    """The dtype as the command and messages spell it."""
    return dtype.name.removesuffix("_")


def is_floating(dtype: numpy.dtype[Any]) -> bool:
    return dtype.kind not in "iub"


@dataclasses.dataclass
class Layout:
    strides: tuple[int, ...]  # in elements
    offset: int  # elements from where the memory starts, so that addresses are not always aligned


def dense_layout(shape: tuple[int, ...]) -> Layout:
    strides = []
    step = 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return Layout(tuple(reversed(strides)), 0)


def random_layout(
    shape: tuple[int, ...], random: numpy.random.Generator, *, may_repeat: bool, may_reverse: bool
) -> Layout:
    """Permuted, stepped, padded, shifted, and where allowed expanded (stride 0) and reversed (a negative stride)."""
    order = list(range(len(shape)))[::-1]  # innermost first
    if random.integers(2):
        random.shuffle(order)
    strides = [0] * len(shape)
    step = 2 if random.integers(3) == 0 else 1
    for axis in order:
        if may_repeat and random.integers(6) == 0:
            continue
        strides[axis] = -step if may_reverse and random.integers(4) == 0 else step
        step *= max(shape[axis], 1)
        if random.integers(4) == 0:
            step += int(random.integers(5))
        if random.integers(8) == 0:
            step *= 2
    return Layout(tuple(strides), int(random.integers(3)))


class GuardedArray:
    """An array with poisoned bytes around it and in its gaps. `host` is the array; give() makes what a call gets."""

    def __init__(self, dtype: numpy.dtype[Any], shape: tuple[int, ...], layout: Layout) -> None:
        self.dtype, self.shape, self.strides = dtype, shape, layout.strides
        steps = (
            [stride * (extent - 1) for stride, extent in zip(layout.strides, shape, strict=True)]
            if 0 not in shape
            else []
        )
        lowest, highest = sum(s for s in steps if s < 0), sum(s for s in steps if s > 0)
        self.offset = GUARD_BYTES // dtype.itemsize + layout.offset - lowest
        size_bytes = (self.offset + highest + 1) * dtype.itemsize + GUARD_BYTES
        self.image = numpy.full(-(-size_bytes // 8) * 8, POISON, numpy.uint8)
        self.host = self._view(self.image)
        self._given: Any = None
        self.remember()

    def _view(self, image: numpy.ndarray[Any, Any]) -> numpy.ndarray[Any, Any]:
        byte_strides = tuple(stride * self.dtype.itemsize for stride in self.strides)
        return numpy.ndarray(self.shape, self.dtype, image, self.offset * self.dtype.itemsize, byte_strides)

    def remember(self) -> None:
        """Later damage() counts from here."""
        self.before = self.image.copy()

    def give(self, where: str, *, read_only: bool = False) -> Any:
        """The array as `where` has it: "numpy", "torch" (CPU) or "cuda" (torch)."""
        if where == "numpy":
            view = self._view(self.image)
            view.flags.writeable = not read_only
            return view
        import torch

        self._given = torch.from_numpy(self.image).to("cuda" if where == "cuda" else "cpu")
        return self._given.view(torch_dtype(self.dtype)).as_strided(self.shape, self.strides, self.offset)

    def take_back(self) -> None:
        """Brings what a GPU wrote."""
        if self._given is not None and self._given.is_cuda:
            self.image[:] = self._given.cpu().numpy()

    def damage(self, *, elements_may_change: bool) -> str:
        """Empty, or which byte changed since remember(): any, or only those outside the elements."""
        expected = self.before.copy()
        if elements_may_change:
            self._view(expected)[...] = self.host
        changed = numpy.flatnonzero(expected != self.image)
        if changed.size == 0:
            return ""
        at = int(changed[0])
        place = at - self.offset * self.dtype.itemsize
        return f"byte {place} from the data pointer is {self.image[at]}, was {expected[at]}"


def torch_dtype(dtype: numpy.dtype[Any]) -> Any:
    import torch

    return getattr(torch, dtype.name)


def to_numpy(array: Any) -> numpy.ndarray[Any, Any]:
    """A result of Kiln's (a NumPy array or a torch tensor) as a NumPy array of the same dtype."""
    if isinstance(array, numpy.ndarray):
        return array
    import torch

    name = str(array.dtype).removeprefix("torch.")
    dtype = numpy.dtype(name) if hasattr(numpy, name) else numpy.dtype(getattr(ml_dtypes, name))
    words = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[dtype.itemsize]
    return array.detach().cpu().contiguous().view(words).numpy().view(dtype)


def mismatch(got: numpy.ndarray[Any, Any], want: numpy.ndarray[Any, Any], relative: float, absolute: float) -> str:
    """Empty, or how `got` differs: NaN is NaN, an infinity itself, other floats within absolute + relative * |want|."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"got {got.dtype}{list(got.shape)}, expected {want.dtype}{list(want.shape)}"
    if is_floating(want.dtype):
        g, w = got.astype(numpy.float64), want.astype(numpy.float64)
        with numpy.errstate(invalid="ignore"):
            near = numpy.abs(g - w) <= absolute + relative * numpy.abs(w)
        right = numpy.where(numpy.isfinite(w) & numpy.isfinite(g), near, (g == w) | (numpy.isnan(g) & numpy.isnan(w)))
    elif want.dtype == numpy.bool_:
        right = got.view(numpy.uint8) == want.view(numpy.uint8)  # a boolean byte is 0 or 1
    else:
        right = got == want
    wrong = numpy.argwhere(~numpy.asarray(right))
    if len(wrong) == 0:
        return ""
    at = tuple(int(i) for i in wrong[0])
    return f"{len(wrong)} of {want.size} elements are wrong; {list(at)} is {got[at]}, expected {want[at]}"
