"""Rows in host memory, brought to a device part by part while the last part is being summed."""

from collections.abc import Iterator
from typing import Any

import torch

PART_ROWS = 1 << 22  # two parts of some columns are on the card: tens of megabytes


def stream_parts(design: Any, weights: Any, device: Any) -> Iterator[tuple[Any, Any]]:
    """Design and weights of consecutive rows, on the device, each valid until the next one is asked for.

    Columns are copied one by one, since only what lies in one piece of pinned memory is copied while kernels
    run. There are two buffers: a stream of its own fills one while the caller's kernels read the other.
    """
    columns = [*design] if weights is None else [*design, weights]
    bounds = [
        (start, min(start + PART_ROWS, design.shape[1])) for start in range(0, design.shape[1], PART_ROWS)
    ]
    if device.type != "cuda":
        for start, stop in bounds:
            yield _split([column[start:stop].to(device) for column in columns], weights)
        return
    copying, computing = torch.cuda.Stream(device), torch.cuda.current_stream(device)
    size = min(PART_ROWS, design.shape[1])
    buffers = [torch.empty((len(columns), size), dtype=design.dtype, device=device) for _ in range(2)]
    filled, read = ([torch.cuda.Event(), torch.cuda.Event()] for _ in range(2))
    copying.wait_stream(computing)  # the memory of the buffers may still be in use by what it was before

    def fill(number: int) -> None:
        start, stop = bounds[number]
        side = number % 2
        with torch.cuda.stream(copying):
            copying.wait_event(read[side])  # an event that was never recorded is not waited for
            for target, column in zip(buffers[side], columns, strict=True):
                target[: stop - start].copy_(column[start:stop], non_blocking=True)
            filled[side].record(copying)

    fill(0)
    for number, (start, stop) in enumerate(bounds):
        if number + 1 < len(bounds):
            fill(number + 1)
        computing.wait_event(filled[number % 2])
        yield _split(buffers[number % 2][:, : stop - start], weights)
        read[number % 2].record(computing)
    computing.wait_stream(copying)


def _split(columns: Any, weights: Any) -> tuple[Any, Any]:
    """The design, and the weights where there are any, which come last."""
    together = columns if isinstance(columns, torch.Tensor) else torch.stack(columns)
    return (together, None) if weights is None else (together[:-1], together[-1])
