"""Results of ops beside those of their references."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import _kiln
from .kernel import check_tolerance


@dataclass(frozen=True)
class OutputCheck:
    """One result of a call, compared with the reference's."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    num_elements: int
    #: Those further off than the tolerance, a NaN without one opposite, another infinity.
    num_wrong: int
    #: Among finite pairs.
    max_error: float
    #: Of the element furthest outside the tolerance, or nearest its edge: place, values, the error allowed there.
    worst_index: str
    actual: str
    expected: str
    allowed_error: float

    @property
    def ok(self) -> bool:
        """Whether every element is right."""
        return self.num_wrong == 0

    def __str__(self) -> str:
        what = f"{self.name} {self.dtype} {self.shape}"
        if self.ok:
            return f"{what}: right, largest error {self.max_error:.3g}"
        return (
            f"{what}: {self.num_wrong} of {self.num_elements} elements are wrong; at {self.worst_index} it is "
            f"{self.actual}, the reference {self.expected} (error allowed {self.allowed_error:.3g})"
        )


@dataclass(frozen=True)
class CallCheck:
    """One call of an op."""

    inputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    outputs: tuple[OutputCheck, ...]

    @property
    def ok(self) -> bool:
        """Whether every result is right."""
        return all(output.ok for output in self.outputs)

    def __str__(self) -> str:
        arguments = [*self.inputs, *(f"{name}={value!r}" for name, value in self.attributes.items())]
        return f"({', '.join(arguments)}): {'; '.join(map(str, self.outputs))}"


class CheckReport(Sequence[CallCheck]):
    """What kiln.check found, call by call. True as a condition where all of it is right."""

    def __init__(self, op: str, device: str, calls: Sequence[CallCheck]) -> None:
        #: The op's name.
        self.op = op
        #: Where it ran.
        self.device = device
        self._calls = tuple(calls)

    @property
    def ok(self) -> bool:
        """Whether every call's results are right."""
        return all(call.ok for call in self._calls)

    @property
    def failures(self) -> list[CallCheck]:
        """The calls with a wrong result."""
        return [call for call in self._calls if not call.ok]

    def __bool__(self) -> bool:
        return self.ok

    def __len__(self) -> int:
        return len(self._calls)

    def __getitem__(self, index: Any) -> Any:
        return self._calls[index]

    def __iter__(self) -> Iterator[CallCheck]:
        return iter(self._calls)

    def __repr__(self) -> str:
        wrong = len(self.failures)
        verdict = "all right" if wrong == 0 else f"{wrong} wrong"
        lines = [f"{self.op} on {self.device}: {len(self)} call{'' if len(self) == 1 else 's'}, {verdict}"]
        return "\n".join(lines + [f"  {self.op}{call}" for call in (self.failures or self._calls)])


def check(
    op: str | _kiln.Op,
    *tensors: object,
    device: str | None = None,
    seed: int = 0,
    random_examples: int = 4,
    config: Mapping[str, int] | str | None = None,
    tolerance: Any = None,
    **attributes: Any,
) -> CheckReport:
    """Runs an op and compares what it gives with its reference, under its tolerance.

    With tensors: that call; the tensors are not changed, for an op that changes its inputs works on copies. Without:
    the op's examples, and random calls where it can make them, over random inputs.

    Parameters
    ----------
    op : str or Op
        Built in or registered with kiln.register_op.
    tensors
        The call's inputs; None for an optional one that is left out.
    device : str, optional
        Where calls without tensors run; the CPU unless given.
    seed : int
        Of random inputs and random calls.
    random_examples : int
        How many random calls.
    config : dict or str, optional
        Tunables; those that a call would take otherwise.
    tolerance : pair or dict, optional
        (relative, absolute) in place of the op's.
    attributes
        Of the call; beside an example's own where no tensors are given.

    Returns
    -------
    CheckReport
        ``report.ok``; nothing is raised for a wrong result.

    Raises
    ------
    NotImplementedError
        For an op without a reference, and for tensors that hold addresses (kv_append_layers).
    ValueError
        For an op without examples when no tensors are given.
    """
    chosen = _kiln.op(op) if isinstance(op, str) else op
    if not isinstance(chosen, _kiln.Op):
        raise _kiln.UsageTypeError(
            f"op is {op!r}; expected the name of an op, or a kiln.Op (a kiln.Kernel has no reference)"
        )
    spec = chosen.spec
    if not spec.has_reference:
        raise _kiln.UsageNotImplementedError(
            f"op '{spec.name}' has no reference to compare with; kiln.register_op takes one"
        )
    bounds = check_tolerance(tolerance, "kiln.check")
    if tensors and spec.follows_addresses:
        raise _kiln.UsageNotImplementedError(
            f"op '{spec.name}' has inputs that hold addresses: what lies there would be changed, and the reference, "
            "which runs on the CPU, may not reach it; without tensors the op's examples are checked"
        )
    if tensors:
        if spec.inputs and spec.inputs[-1].repeated and len(tensors) == len(spec.inputs):
            last = tensors[-1]
            if isinstance(last, (list, tuple)):  # as torch.cat has it
                tensors = (*tensors[:-1], *last)
        placed = [None if tensor is None else tensor for tensor in tensors]
        host = [None if tensor is None else _kiln.to_device(tensor, "cpu") for tensor in tensors]
        where = next((_device_of(t) for t in tensors if t is not None and _device_of(t) != "cpu"), "cpu")
        return CheckReport(spec.name, where, [_check_call(chosen, placed, host, attributes, where, config, bounds)])
    place = device or "cpu"
    calls: list[CallCheck] = []
    for example in _examples(spec, seed, random_examples):
        host = [None if meta.absent else _kiln.empty(meta.shape, meta.dtype, "cpu") for meta in example.inputs]
        all_attributes = {**example.attributes, **attributes}
        contents = (all_attributes, seed + len(calls), example.ranges)
        right = spec.fill_inputs(host, *contents)
        given, memory = host, right
        if spec.follows_addresses:  # the reference's memory is the CPU's, the call's is where it runs
            given = [None if meta.absent else _kiln.empty(meta.shape, meta.dtype, "cpu") for meta in example.inputs]
            memory = spec.fill_inputs(given, *contents, device=place)
        on_device = [None if tensor is None else _kiln.to_device(tensor, place) for tensor in given]
        calls.append(_check_call(chosen, on_device, host, all_attributes, place, config, bounds, (memory, right)))
    return CheckReport(spec.name, place, calls)


def _examples(spec: _kiln.OpSpec, seed: int, random_examples: int) -> list[_kiln.Example]:
    examples = list(spec.examples())
    if spec.has_random_example:
        examples += [spec.random_example(seed + i) for i in range(random_examples)]
    if not examples:
        raise _kiln.UsageValueError(
            f"op '{spec.name}' has no examples: give the tensors of a call, or register it with examples"
        )
    return examples


def _device_of(tensor: object) -> str:
    """ "cpu" or "cuda:0", by DLPack's account where the object has one."""
    if hasattr(tensor, "__dlpack_device__"):
        kind, index = tensor.__dlpack_device__()
        return f"cuda:{index}" if int(kind) == 2 else "cpu"
    return "cuda:0" if hasattr(tensor, "__cuda_array_interface__") else "cpu"


def _check_call(
    op: _kiln.Op,
    tensors: list[Any],
    host: list[Any],
    attributes: Mapping[str, Any],
    device: str,
    config: Mapping[str, int] | str | None,
    bounds: Mapping[str, tuple[float, float]] | None,
    addressed: tuple[list[_kiln.Tensor], list[_kiln.Tensor]] = ([], []),
) -> CallCheck:
    """`addressed`: what lies at the addresses among `tensors`, and at those of `host`."""
    spec = op.spec
    described = tuple(
        "None" if t is None else f"{spec.inputs[min(i, len(spec.inputs) - 1)].name} {t.dtype.name} {tuple(t.shape)}"
        for i, t in enumerate(host)
    )
    metas = _kiln.infer_outputs(spec.name, *host, **attributes)
    options: dict[str, Any] = {} if config is None else {"config": config}
    if spec.outputs:
        names = [output.name for output in spec.outputs]
        outputs = [_kiln.empty(meta.shape, meta.dtype, device) for meta in metas]
        for output in outputs:
            _kiln.poison(output)
        op(*tensors, out=outputs[0] if len(outputs) == 1 else tuple(outputs), **options, **attributes)
        expected = [_kiln.empty(meta.shape, meta.dtype, "cpu") for meta in metas]
        spec.reference(host, expected, attributes)
    else:
        tables = [i for i, input_spec in enumerate(spec.inputs) if input_spec.points_to]
        changed = [
            i
            for i in range(len(host))
            if spec.inputs[min(i, len(spec.inputs) - 1)].mutated and host[i] is not None and i not in tables
        ]
        names = [spec.inputs[min(i, len(spec.inputs) - 1)].name for i in changed]
        names += [f"{spec.inputs[i].name}[{entry}]" for i in tables for entry in range(host[i].shape[0])]
        tensors = [_kiln.to_device(t, device) if i in changed else t for i, t in enumerate(tensors)]
        op(*tensors, **options, **attributes)
        outputs = [tensors[i] for i in changed] + addressed[0]
        spec.reference(host, [], attributes)
        expected = [host[i] for i in changed] + [_kiln.to_device(memory, "cpu") for memory in addressed[1]]
    checks = []
    for name, output, right in zip(names, outputs, expected, strict=True):
        allowed = spec.tolerance(right.dtype)
        relative, absolute = (bounds or {}).get(right.dtype.name, (allowed.relative, allowed.absolute))
        compared = _kiln.compare(_kiln.to_device(output, "cpu"), right, relative, absolute)
        checks.append(OutputCheck(name=name, dtype=right.dtype.name, shape=tuple(right.shape), **compared))
    return CallCheck(described, dict(attributes), tuple(checks))
