"""A graph of ONNX operators in the making: nodes, constants, inputs and outputs."""

from collections.abc import Callable, Sequence
from copy import copy
from itertools import count
from typing import Any, TypeAlias

import numpy as np

from evenhand._utils.optional import import_optional
from evenhand._utils.typing import AnyArray

Value: TypeAlias = str | AnyArray | np.generic | float | int  # a tensor by its name, or a constant

OPSET = 20  # of the operators; ONNX Runtime 1.18 and later run it
ML_OPSET = 3  # of those for trees and labels: the newest that skl2onnx writes
IR_VERSION = 9
ML = "ai.onnx.ml"
CONTRIB = "com.microsoft"  # ONNX Runtime's own operators: only text needs one, to be cut into characters
DOMAINS = {"": OPSET, ML: ML_OPSET, CONTRIB: 1}


def load_onnx() -> Any:
    """The package onnx, or an error that names the extra."""
    return import_optional("onnx", extra="onnx", purpose="eh.export_onnx")


class Graph:
    """Nodes that were added so far; every method returns the name of the tensor that it adds.

    Arguments that are arrays or numbers become constants of the graph. Numbers of Python take the type of
    the graph's own numbers, `dtype`.
    """

    def __init__(self, dtype: Any = np.float64, parent: "Graph | None" = None) -> None:
        self.onnx = load_onnx()
        self.dtype = np.dtype(dtype)
        self.nodes: list[Any] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self.domains: set[str] = set() if parent is None else parent.domains
        self.single_parts: list[str] = []  # models that are in single precision in a graph of double
        self._parent = parent
        self._constants: dict[Any, tuple[str, Any]] = {}
        self._numbers = count(1)

    @property
    def number_type(self) -> int:
        """The graph's type of numbers, as ONNX counts types."""
        return self.type_of(self.dtype)

    def type_of(self, dtype: Any) -> int:
        """A type of NumPy's, as ONNX counts types."""
        kind = np.dtype(dtype)
        if kind.kind in "OUST":
            return int(self.onnx.TensorProto.STRING)
        return int(self.onnx.helper.np_dtype_to_tensor_dtype(kind))

    def new_name(self, hint: str) -> str:
        """A name that no other tensor has."""
        if self._parent is not None:
            return self._parent.new_name(hint)
        return f"evenhand/{hint}_{next(self._numbers)}"  # no column of a table is called so

    def constant(self, value: AnyArray | np.generic | float | int) -> str:
        """A constant tensor; equal ones are stored once."""
        if self._parent is not None:
            return self._parent.constant(value)
        array = value if isinstance(value, np.ndarray | np.generic) else np.asarray(value, self.dtype)
        array = np.asarray(array)
        content = tuple(array.ravel().tolist()) if array.dtype.kind in "OU" else array.tobytes()
        key = (array.dtype.str, array.shape, content)
        if key not in self._constants:
            name = self.new_name("constant")
            if array.dtype.kind == "U":
                array = array.astype(object)
            self._constants[key] = (name, self.onnx.numpy_helper.from_array(array, name))
        return self._constants[key][0]

    def op(self, kind: str, *inputs: Value, domain: str = "", **attributes: Any) -> str:
        """Add an operator of one output."""
        return self.ops(kind, 1, *inputs, domain=domain, **attributes)[0]

    def ops(
        self, kind: str, n_outputs: int, *inputs: Value, domain: str = "", **attributes: Any
    ) -> list[str]:
        """Add an operator of several outputs."""
        names = [each if isinstance(each, str) else self.constant(each) for each in inputs]
        outputs = [self.new_name(kind) for _ in range(n_outputs)]
        self.nodes.append(self.onnx.helper.make_node(kind, names, outputs, domain=domain, **attributes))
        if domain:
            self.domains.add(domain)
        return outputs

    def add_input(self, name: str, dtype: Any, *shape: int | str) -> str:
        """Declare an input; text in the shape stands for any size."""
        if not name:
            raise ValueError(
                "An input of a graph needs a name, and a column of this model has none: name it."
            )
        if name in self.input_names():
            raise ValueError(f"Two inputs of the graph would be called {name!r}: rename that column.")
        self.inputs.append(self.onnx.helper.make_tensor_value_info(name, self.type_of(dtype), shape))
        return name

    def input_names(self) -> list[str]:
        """Names of the inputs so far."""
        return [each.name for each in self.inputs]

    def in_double(self) -> "Graph":
        """The same graph, whose further numbers are in double precision."""
        view = copy(self)
        view.dtype = np.dtype(np.float64)
        return view

    def add_output(self, name: str, value: str, dtype: Any, *shape: int | str) -> None:
        """Declare a tensor to be an output, by a name of its own."""
        self.nodes.append(self.onnx.helper.make_node("Identity", [value], [name]))
        self.outputs.append(self.onnx.helper.make_tensor_value_info(name, self.type_of(dtype), shape))

    def cast(self, value: Value, dtype: Any) -> str:
        """The same numbers in another type."""
        return self.op("Cast", value, to=self.type_of(dtype))

    def columns(self, value: str, places: Sequence[int] | AnyArray) -> str:
        """Some columns of a table."""
        return self.op("Gather", value, np.asarray(places, np.int64), axis=1)

    def split(self, value: str, n_columns: int) -> list[str]:
        """Each column of a table, still as a table of one."""
        if n_columns == 1:
            return [value]
        return self.ops("Split", n_columns, value, axis=1, num_outputs=n_columns)

    def add_columns(self, value: str, n_columns: int) -> str:
        """The sum of each row, added column by column as the package does, in a table of one column."""
        first, *others = self.split(value, n_columns)
        for column in others:
            first = self.op("Add", first, column)
        return first

    def flat(self, value: str) -> str:
        """A table as one long row."""
        return self.op("Reshape", value, np.array([-1], np.int64))

    def column(self, value: str) -> str:
        """A row of numbers as a table of one column."""
        return self.op("Reshape", value, np.array([-1, 1], np.int64))

    def join(self, parts: Sequence[str], axis: int = 1) -> str:
        """Tables side by side."""
        return parts[0] if len(parts) == 1 else self.op("Concat", *parts, axis=axis)

    def product(self, table: str, matrix: AnyArray, offset: AnyArray | None = None) -> str:
        """Rows times a matrix, plus an offset, in the graph's own precision.

        Not by MatMul: ONNX Runtime takes a factor beside it into the operator, rounded to single precision.
        """
        parts = [part.astype(self.dtype) for part in (matrix, offset) if part is not None]
        return self.op("Gemm", table, *parts)

    def fail_where(self, bad: str, value: str) -> str:
        """Integers as they are; where any are bad the whole run fails, since a graph cannot say why."""
        beyond = self.op("Where", bad, np.int64(2), np.int64(0))  # no place of a table of one
        return self.op("Add", value, self.op("Gather", np.zeros(1, np.int64), beyond))

    def number_of_rows(self, value: str) -> str:
        """The length of the first dimension, as a tensor of one integer."""
        return self.op("Slice", self.op("Shape", value), np.array([0]), np.array([1]))

    def loop(
        self, count: str, state: Sequence[str], body: Callable[["Graph", str, list[str]], list[str]]
    ) -> list[str]:
        """Apply `body(graph, place, state)` for places 0, 1, ... and return the last state."""
        inner = Graph(self.dtype, parent=self)
        helper, types = self.onnx.helper, self.onnx.TensorProto
        place, going = inner.new_name("place"), inner.new_name("going")
        names = [inner.new_name("state") for _ in state]
        after = body(inner, place, list(names))
        still = inner.op("Identity", going)
        unknown = [helper.make_tensor_value_info(name, types.UINT64, None) for name in (*names, *after)]
        given, found = unknown[: len(names)], unknown[len(names) :]
        begins = helper.make_tensor_value_info(place, types.INT64, [])
        goes = [helper.make_tensor_value_info(name, types.BOOL, []) for name in (going, still)]
        graph = helper.make_graph(inner.nodes, "loop", [begins, goes[0], *given], [goes[1], *found])
        return self.ops("Loop", len(names), count, np.array(True), *state, body=graph)

    def model(self, name: str, metadata: dict[str, str]) -> Any:
        """The finished model, checked."""
        helper = self.onnx.helper
        imports = [helper.make_opsetid(each, DOMAINS[each]) for each in ("", *sorted(self.domains))]
        constants = [tensor for _, tensor in self._constants.values()]
        graph = helper.make_graph(self.nodes, name, self.inputs, self.outputs, constants)
        model = helper.make_model(
            graph, opset_imports=imports, ir_version=IR_VERSION, producer_name="evenhand"
        )
        helper.set_model_props(model, metadata)
        self.onnx.checker.check_model(model)
        return model
