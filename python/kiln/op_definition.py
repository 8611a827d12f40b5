"""The parts of an op's spec that are written in Python, as people give them and as the extension module takes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import _kiln
from .kernel import Kernel, check_defaults
from .launch_meta import Call, CallTensor, Described, LaunchMeta, call_tensors, grid_extents
from .op_input import Input, input_dict

_RESERVED = ("out", "stream", "config", "tuning", "overlap_previous", "device")


@dataclass(frozen=True)
class Launch:
    """What one call of an op launches.

    ``arguments`` has the kernel's parameters in their order, or some of them by name: numbers, and for pointers the
    call's tensors. What it leaves out is found by name: tensors of the op, its attributes, tunables, and ``n``, the
    number of elements of its first result. ``template`` is for template parameters, by name.
    """

    grid: int | Sequence[int]
    template: Mapping[str, Any] = field(default_factory=dict)
    arguments: Sequence[Any] | Mapping[str, Any] = ()
    #: Warps of a program on a GPU; unset: the tunable of that name, else 4.
    num_warps: int | None = None
    #: Bytes of dynamic shared memory on a GPU, for kernels with an ``extern __shared__`` of their own. Left out, a
    #: kernel gets what its ``tl::pipeline`` needs; a call with less than that, or more than the device has, is a
    #: ValueError.
    shared_bytes: int = 0


class OpDefinition:
    """What register_op was given, checked, as the extension module takes it."""

    def __init__(self, name: str, doc: str, inputs: Sequence[Any], outputs: Sequence[str] | str) -> None:
        if not isinstance(name, str):
            raise _kiln.UsageTypeError(f"name is {name!r}; expected a string")
        self.name = name
        self.what = f"op '{name}'"
        self.doc = doc
        if isinstance(inputs, (str, Input)):
            inputs = [inputs]
        for argument, given in (("inputs", inputs), ("outputs", outputs)):
            if not isinstance(given, Iterable):
                raise _kiln.UsageTypeError(f"{self.what}: {argument} is {given!r}; expected a list of names")
        self.inputs = [self._input(item) for item in inputs]
        self.outputs = [outputs] if isinstance(outputs, str) else list(outputs)
        self.input_names = [item.name for item in self.inputs]
        names = [*self.outputs, *self.input_names]
        for item in names:
            if not isinstance(item, str) or not item.isidentifier():
                raise _kiln.UsageValueError(f"{self.what}: a tensor is named {item!r}; expected a Python name")
            if names.count(item) > 1:
                raise _kiln.UsageValueError(f"{self.what} has more than one tensor named {item!r}")
        if not self.outputs and not any(item.mutated for item in self.inputs):
            raise _kiln.UsageValueError(
                f"{self.what} makes nothing: give it outputs, or an input that it changes, kiln.Input(..., mutated=True)"
            )
        for item in self.input_names:
            if item in _RESERVED:
                raise _kiln.UsageValueError(
                    f"{self.what}: {item!r} is a keyword of every call; give the input another name"
                )

    def _input(self, item: Any) -> Input:
        if isinstance(item, Input):
            return item
        if isinstance(item, str):
            return Input(item)
        raise _kiln.UsageTypeError(f"{self.what}: an input is {item!r}; expected its name, or a kiln.Input")

    def call(
        self,
        inputs: Sequence[Described],
        outputs: Sequence[Described],
        attributes: dict[str, Any],
        target: tuple[str, str, int] = ("", "", 0),
    ) -> Call:
        return Call(call_tensors(self.input_names, inputs), call_tensors(self.outputs, outputs), attributes, *target)

    def input_dicts(self) -> list[dict[str, Any]]:
        """The inputs, with what their values select or point to."""
        return [input_dict(item, place, self.call, self.what) for place, item in enumerate(self.inputs)]

    def attribute_dicts(self, attributes: Mapping[str, Any] | None) -> list[dict[str, Any]]:
        """The attributes with their types' zero values where they are required."""
        if attributes is not None and not isinstance(attributes, Mapping):
            raise _kiln.UsageTypeError(
                f"{self.what}: attributes is {attributes!r}; expected a dict of defaults, or of types, by name"
            )
        zeros: dict[type, Any] = {bool: False, int: 0, float: 0.0, str: "", _kiln.DType: _kiln.DType("f32"), list: []}
        made = []
        for name, value in (attributes or {}).items():
            if not isinstance(name, str) or not name.isidentifier() or name in _RESERVED:
                raise _kiln.UsageValueError(f"{self.what}: no attribute can be named {name!r}")
            if name in self.input_names:
                raise _kiln.UsageValueError(f"{self.what}: {name!r} is both an input and an attribute")
            required = isinstance(value, type)
            if required and value not in zeros:
                raise _kiln.UsageTypeError(
                    f"{self.what}: attribute {name!r} is of type {value.__name__}; attributes are bool, int, float, str, "
                    "kiln.DType or list (of integers)"
                )
            default = zeros[value] if required else value
            made.append(
                {
                    "name": name,
                    "default": default,
                    "required": required,
                    "doc": "",
                    # Which config is the fastest hangs on sizes and modes; a factor or a threshold is not among them.
                    "decides_speed": not isinstance(default, float),
                }
            )
        return made

    def infer(self, infer: Callable[..., Any] | str | None) -> Callable[..., list[tuple[Any, Any]]]:
        """Shapes and dtypes of the outputs."""
        outputs, what = self.outputs, self.what
        if infer is None or isinstance(infer, str):
            names = self.input_names
            like = names[0] if infer in (None, "like first input") and names else str(infer).removeprefix("like ")
            if infer is None and len(outputs) > 1:
                raise _kiln.UsageValueError(
                    f"{what} has {len(outputs)} outputs, so it needs infer, which says their dtypes and shapes"
                )
            if like not in names and outputs:
                raise _kiln.UsageValueError(
                    f"{what}: infer is {infer!r}; expected a function, 'like first input', or 'like' and the name of an "
                    f"input ({', '.join(names) or 'there is none'})"
                )
            position = names.index(like) if outputs else 0

            def infer_like(inputs: Sequence[Described], attributes: dict[str, Any]) -> list[tuple[Any, Any]]:
                return [(inputs[position][0], inputs[position][1])] * len(outputs)

            return infer_like
        if not callable(infer):
            raise _kiln.UsageTypeError(f"{what}: infer is {infer!r}; expected a function of the inputs and attributes")
        function = infer

        def infer_called(inputs: Sequence[Described], attributes: dict[str, Any]) -> list[tuple[Any, Any]]:
            metas = function(call_tensors(self.input_names, inputs), **attributes)
            if isinstance(metas, (_kiln.TensorMeta, CallTensor)) or (
                isinstance(metas, tuple) and len(outputs) == 1 and len(metas) == 2
            ):
                metas = [metas]
            made = []
            try:
                for meta in metas or ():
                    dtype, shape = (meta.dtype, meta.shape) if hasattr(meta, "shape") else meta
                    made.append((dtype, tuple(shape)))
            except (TypeError, ValueError):
                raise _kiln.UsageTypeError(
                    f"{what}: infer gave {metas!r}; expected a list of (dtype, shape) pairs"
                ) from None
            if len(made) != len(outputs):
                raise _kiln.UsageValueError(
                    f"{what}: infer gave {len(made)} outputs, and the op has {len(outputs)} ({', '.join(outputs)})"
                )
            return made

        return infer_called

    def defaults(self, default_config: Any) -> dict[str, Any]:
        """Default tunables as the extension module takes them: for each target, and of each call where they are a function's."""
        if not isinstance(default_config, Mapping) and not callable(default_config):
            raise _kiln.UsageTypeError(
                f"{self.what}: default_config is {default_config!r}; expected a dict such as {{'BLOCK_SIZE': 256}}, a "
                "function of the call that gives one, or a dict of such for 'cpu' and 'cuda'"
            )
        parts = (
            default_config if isinstance(default_config, Mapping) else dict.fromkeys(("cpu", "cuda"), default_config)
        )
        functions = {target: part for target, part in parts.items() if callable(part)}
        if not functions:
            fixed = check_defaults(default_config, self.what)
            return {"cpu_defaults": fixed["cpu"], "cuda_defaults": fixed["cuda"]}
        fixed = check_defaults({key: {} if key in functions else part for key, part in parts.items()}, self.what)

        def compute(
            inputs: Sequence[Described],
            outputs: Sequence[Described],
            attributes: dict[str, Any],
            target: tuple[str, str, int],
        ) -> dict[str, int]:
            if target[0] not in functions:
                return fixed[target[0]]
            made = functions[target[0]](self.call(inputs, outputs, attributes, target))
            if not isinstance(made, Mapping):
                raise _kiln.UsageTypeError(
                    f"{self.what}: default_config gave {made!r}; expected a dict such as {{'BLOCK_SIZE': 256}}"
                )
            return dict(made)

        return {"cpu_defaults": fixed["cpu"], "cuda_defaults": fixed["cuda"], "defaults_of_call": compute}

    def cost(self, cost: Callable[..., Any] | None) -> Callable[..., tuple[float, float]]:
        """(operations, bytes) of a call; each tensor's bytes once where none is given."""
        if cost is None:
            return lambda inputs, outputs, attributes: (
                0.0,
                float(
                    sum(
                        t.nbytes
                        for t in (*call_tensors(self.input_names, inputs), *call_tensors(self.outputs, outputs))
                        if t
                    )
                ),
            )
        if not callable(cost):
            raise _kiln.UsageTypeError(f"{self.what}: cost is {cost!r}; expected a function of the call")

        def compute(
            inputs: Sequence[Described], outputs: Sequence[Described], attributes: dict[str, Any]
        ) -> tuple[float, float]:
            made = cost(self.call(inputs, outputs, attributes))
            try:
                flops, bytes_ = made
                return float(flops), float(bytes_)
            except (TypeError, ValueError):
                raise _kiln.UsageTypeError(f"{self.what}: cost gave {made!r}; expected (operations, bytes)") from None

        return compute

    def reference(self, reference: Callable[..., Any] | None) -> Callable[..., None] | None:
        """Runs the NumPy function and copies what it returns into the outputs, or the changed inputs."""
        if reference is None:
            return None
        if not callable(reference):
            raise _kiln.UsageTypeError(
                f"{self.what}: reference is {reference!r}; expected a NumPy function of the inputs"
            )

        def run(inputs: list[Any], outputs: list[Any], attributes: dict[str, Any]) -> None:
            import numpy

            copies = [None if array is None else numpy.array(array) for array in inputs]
            made = reference(*copies, **attributes)
            if outputs:
                results = list(made) if isinstance(made, (tuple, list)) else [made]
                places = [(name, place) for name, place in zip(self.outputs, outputs, strict=True)]
            else:  # it returns what it changed, or changes what it was given
                changed = [
                    i
                    for i, item in enumerate(self.inputs)
                    if item.mutated and i < len(inputs) and inputs[i] is not None
                ]
                given = made is not None
                results = (
                    (list(made) if isinstance(made, (tuple, list)) else [made])
                    if given
                    else [copies[i] for i in changed]
                )
                places = [(self.inputs[i].name, inputs[i]) for i in changed]
            if len(results) != len(places):
                raise _kiln.UsageValueError(
                    f"{self.what}: the reference returned {len(results)} arrays; expected {len(places)} "
                    f"({', '.join(name for name, _ in places)})"
                )
            for (name, place), result in zip(places, results, strict=True):
                result = numpy.asarray(result)
                if result.shape != place.shape:
                    raise _kiln.UsageValueError(
                        f"{self.what}: the reference's '{name}' has shape {result.shape}, and infer says {place.shape}"
                    )
                place[...] = result.astype(place.dtype, copy=False)

        return run

    def launch(self, launch: Callable[..., Any] | None, kernel: Kernel) -> Callable[..., dict[str, Any]] | None:
        """The launch of a kernel, as names and values."""
        if launch is None:
            return None
        if not callable(launch):
            raise _kiln.UsageTypeError(
                f"{self.what}: launch is {launch!r}; expected a function of the call and the config"
            )
        parameters = [name for name, _ in kernel.parameters]
        what = f"{self.what}: launch"

        def compute(
            inputs: Sequence[Described],
            outputs: Sequence[Described],
            attributes: dict[str, Any],
            config: dict[str, int],
            target: tuple[str, str, int],
        ) -> dict[str, Any]:
            made = launch(self.call(inputs, outputs, attributes, target), config)
            if not isinstance(made, Launch):
                raise _kiln.UsageTypeError(f"{what} gave {made!r}; expected a kiln.Launch")
            arguments = made.arguments
            if not isinstance(arguments, Mapping):
                if arguments and len(arguments) != len(parameters):
                    raise _kiln.UsageValueError(
                        f"{what} gave {len(arguments)} arguments; kernel '{kernel.name}' has {len(parameters)} "
                        f"parameters ({', '.join(parameters)})"
                    )
                arguments = dict(zip(parameters, arguments, strict=False))
            unknown = [n for n in arguments if n not in parameters] + [
                n for n in made.template if n not in kernel.template_names
            ]
            if unknown:
                raise _kiln.UsageValueError(
                    f"{what} gave {unknown[0]!r}, which kernel '{kernel.name}' does not have: {kernel.declaration}"
                )
            tensors = {key: value.name for key, value in arguments.items() if isinstance(value, CallTensor)}
            values = {key: value for key, value in arguments.items() if key not in tensors and value is not None}
            return {
                "grid": grid_extents(made.grid, f"{what}: grid"),
                "values": {**values, **made.template},
                "tensors": tensors,
                "num_warps": made.num_warps or 0,
                "shared_bytes": made.shared_bytes,
            }

        return compute

    def grid(self, kernel: Kernel) -> Callable[..., tuple[int, int, int]] | None:
        """The kernel's own grid, told about a call of the op."""
        grid, what = kernel.grid, f"{self.what}: the grid of kernel '{kernel.name}'"
        if grid is None:
            return None
        if not callable(grid):
            extents = grid_extents(grid, what)
            return lambda inputs, outputs, attributes, config: extents

        def compute(
            inputs: Sequence[Described],
            outputs: Sequence[Described],
            attributes: dict[str, Any],
            config: dict[str, int],
        ) -> tuple[int, int, int]:
            call = self.call(inputs, outputs, attributes)
            tensors = {t.name: t for t in (*call.inputs, *call.outputs) if t is not None}
            changed = [t for t, item in zip(call.inputs, self.inputs, strict=False) if item.mutated and t is not None]
            first = call.outputs[0] if call.outputs else (changed[0] if changed else None)
            elements = {} if first is None else {"n": first.numel}
            return grid_extents(grid(LaunchMeta({**elements, **tensors, **attributes, **config})), what)

        return compute
