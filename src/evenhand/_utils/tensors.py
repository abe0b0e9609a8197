"""Tensors of PyTorch, and arrays of other libraries on a GPU: told apart without importing torch."""

import importlib
import sys
from typing import Any

from evenhand._utils.optional import import_optional

_IN_MEMORY = 1  # what DLPack calls the CPU


def import_torch() -> Any:
    """PyTorch, or an error that says which extra brings it."""
    return import_optional("torch", extra="torch", purpose="Fitting and predicting on a device")


def is_tensor(values: object) -> bool:
    """Whether values are a tensor of PyTorch, or an array of another library on a GPU (through DLPack).

    Arrays of other libraries in the memory of the CPU are not: NumPy reads them where they are.
    """
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(values, torch.Tensor):
        return True
    place = getattr(values, "__dlpack_device__", None)
    return place is not None and place()[0] != _IN_MEMORY


def gpu_of(values: Any) -> Any:
    """The GPU that a tensor is on, where sums over rows can be computed; None for all else."""
    if not is_tensor(values):
        return None
    device = as_tensor(values, "scores").device
    return None if device.type == "cpu" else device


def as_tensor(values: Any, name: str) -> Any:
    """A tensor of real numbers that no gradient is asked of, on the device that the values are on."""
    torch = import_torch()
    tensor = values if isinstance(values, torch.Tensor) else torch.from_dlpack(values)
    if not tensor.dtype.is_floating_point:
        raise ValueError(
            f"{name} must be a tensor of floats: got {tensor.dtype}. Convert it with {name}.float()."
        )
    if tensor.layout != torch.strided:
        raise ValueError(f"{name} must be a dense tensor: got {tensor.layout}. Pass {name}.to_dense().")
    if tensor.requires_grad:
        raise ValueError(
            f"{name} asks for gradients, and the parity step passes none on: pass {name}.detach()."
        )
    # Metal has no float64: what is on it is read in the memory that it shares with the CPU
    return tensor.cpu() if tensor.device.type == "mps" else tensor


def require_one_place(**given: Any) -> None:
    """Refuse arguments of which some are tensors and some are not, or that are on several devices."""
    places = {
        name: str(values.device) if is_tensor(values) else f"no tensor ({type(values).__name__})"
        for name, values in given.items()
        if values is not None
    }
    if len(set(places.values())) > 1:
        told = ", ".join(f"{name}: {place}" for name, place in places.items())
        raise ValueError(f"Tensors must all be on one device: got {told}. Move them with .to(device).")


def like(given: Any, tensor: Any) -> Any:
    """A tensor as an array of the library that `given` is of, on the same device."""
    if isinstance(given, import_torch().Tensor):
        return tensor.to(given.device)
    if hasattr(given, "__array_namespace__"):
        return given.__array_namespace__().from_dlpack(tensor)
    library = importlib.import_module(type(given).__module__.partition(".")[0])  # CuPy, before version 15
    return library.from_dlpack(tensor)
