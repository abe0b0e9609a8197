"""Launch the Triton kernels: tables of what belongs to the atoms, shapes of programs, sums in a fixed order."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
import triton.language as tl

from evenhand._kernels.triton_moments import lows_kernel, moments_kernel
from evenhand._utils.typing import FloatArray

MOST_COLUMNS = 16  # of a row: loops over them are unrolled
FARTHEST = {True: 1e15, False: 1e30}  # atoms that fill up a tile: their power is zero, squared or not
REGISTERS = 200  # of 255 that a thread may hold: the rest is for rows, addresses and loops


@dataclass(frozen=True, slots=True)
class Shape:
    """How a launch is laid out."""

    rows: int  # of a block
    width: int  # lanes that share a row
    chunks: int  # pieces of a tile of atoms
    programs: int  # for each multiprocessor
    warps: int = 1

    @property
    def tile(self) -> int:
        """Atoms of a tile."""
        return self.width * self.chunks


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """What belongs to the atoms, as the kernels read it."""

    vectors: FloatArray  # (n_vectors, n_atoms)
    root: float  # the scale of the score, where the cost is squared
    ratio: float  # of the logits that are computed to those that were asked for
    scale: float  # of a squared cost, which has `scale * eta^2` beside the logits; 0 where there is none
    filler: FloatArray  # of an atom that is not there, (n_vectors,)

    @property
    def squared(self) -> bool:
        """Whether this is for the squared cost, in float32."""
        return self.scale > 0.0


def complete_square(loadings: FloatArray, offset: FloatArray) -> tuple[float, FloatArray] | None:
    """`s` and `y` with `loadings = 2 s y` and `offset = -s y^2`, the squared cost; None where it is not."""
    top = int(np.argmax(np.abs(loadings)))
    if not offset[top] < 0.0:
        return None
    scale = -(loadings[top] ** 2) / (4.0 * offset[top])
    atoms = loadings / (2.0 * scale)
    fits = np.abs(offset + scale * atoms**2).max() <= 1e-9 * scale * max(1.0, float((atoms**2).max()))
    return (float(scale), atoms) if fits else None


def make_table(loadings: FloatArray, offset: FloatArray, *, single: bool) -> Table | None:
    """Negative loadings and offset; in float32 those of a squared cost, split in two, or None."""
    if not single:
        vectors = -np.vstack([loadings.T, offset])
        return Table(vectors, 1.0, 1.0, 0.0, np.append(np.zeros(len(vectors) - 1), FARTHEST[False]))
    square = complete_square(loadings[:, -1], offset)
    if square is None:
        return None
    scale, atoms = square
    root = float(np.float32(np.sqrt(scale)))  # exact in float32: then only the temperature is rounded
    ratio = root**2 / scale
    tilts, places = -ratio * loadings[:, :-1].T, root * atoms[None]
    high_tilts, high_places = (part.astype(np.float32).astype(np.float64) for part in (tilts, places))
    vectors = np.vstack([high_tilts, tilts - high_tilts, high_places, places - high_places])
    filler = np.zeros(len(vectors))
    filler[-2] = FARTHEST[True]
    return Table(vectors, root, ratio, scale, filler)


def _registers(shape: Shape, n_vectors: int, n_moments: int, size: int) -> int:
    held = shape.rows * shape.width * shape.chunks // (32 * shape.warps)
    return size // 4 * (held * (1 + n_moments) + n_vectors * shape.chunks)


def choose_shape(n_atoms: int, n_vectors: int, n_moments: int, size: int) -> tuple[Shape, bool]:
    """The layout for as many atoms, and whether all of them are in one tile; `size` is that of a number."""
    for rows, width in ((8, 16), (4, 8), (4, 16), (2, 16), (2, 32), (1, 32)):
        shape = Shape(rows, width, -(-n_atoms // width), 16)
        if _registers(shape, n_vectors, n_moments, size) <= REGISTERS:
            return shape, True
    for rows, width, chunks in ((8, 16, 8), (4, 16, 8), (4, 16, 4), (2, 16, 4), (2, 16, 2), (2, 16, 1)):
        shape = Shape(rows, width, chunks, 16)
        if _registers(shape, n_vectors, n_moments, size) <= REGISTERS:
            break
    return shape, False


@cache
def multiprocessors(device: Any) -> int:
    """Multiprocessors of a card; one where the kernels are interpreted."""
    if device.type != "cuda":
        return 1
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


def launch(
    design: Any,
    weights: Any,
    table: Table,
    n_moments: int,
    shape: Shape,
    *,
    fused: bool,
    lows_shape: Shape | None = None,
) -> Any:
    """Sums over rows (n_columns, n_rows) on a device: smooth, peak, then (n_moments, n_atoms), in float64.

    Rows without weights count one each.
    """
    n_columns, n_rows = design.shape
    n_atoms = table.vectors.shape[1]
    device, real = design.device, torch.float32 if table.squared else torch.float64
    n_tiles = -(-n_atoms // shape.tile)
    padded = n_tiles * shape.tile
    vectors = np.repeat(table.filler[:, None], padded, axis=1)
    vectors[:, :n_atoms] = table.vectors
    on_device = torch.from_numpy(vectors).to(device, real)
    n_programs = max(1, min(multiprocessors(device) * shape.programs, -(-n_rows // shape.rows)))
    sums = torch.empty((n_programs, n_moments, padded), dtype=real, device=device)
    of_rows = torch.empty((n_programs, 2), dtype=torch.float64, device=device)
    lows = masses = on_device
    common = {
        "N_COLUMNS": n_columns,
        "SQUARED": table.squared,
        "WEIGHTED": weights is not None,
        "REAL": tl.float32 if table.squared else tl.float64,
    }
    given = design, design.stride(0), design if weights is None else weights, on_device, table.root
    if not fused:
        lows, masses = torch.empty((2, n_rows), dtype=real, device=device)
        other = lows_shape or Shape(32, 8, min(8, shape.tile // 8), 16)
        n_lows = max(1, min(multiprocessors(device) * other.programs, -(-n_rows // other.rows)))
        of_rows = torch.empty((n_lows, 2), dtype=torch.float64, device=device)
        if padded % other.tile:
            raise ValueError("The tiles of the two passes do not agree.")
        lows_kernel[(n_lows,)](
            *given, lows, masses, of_rows, n_rows, padded,
            ROWS=other.rows, WIDTH=other.width, CHUNKS=other.chunks, num_warps=other.warps, **common,
        )  # fmt: skip
    moments_kernel[(n_programs, n_tiles)](
        *given, lows, masses, sums, of_rows, n_rows, padded,
        N_MOMENTS=n_moments, ROWS=shape.rows, WIDTH=shape.width, CHUNKS=shape.chunks, KNOWN=not fused,
        num_warps=shape.warps, **common,
    )  # fmt: skip
    smooth, peak = of_rows.sum(dim=0).unbind()
    total = sums[:, :, :n_atoms].sum(dim=0, dtype=torch.float64).ravel()
    return torch.cat([torch.stack([(smooth + peak) / table.ratio, peak / table.ratio]), total])


class FusedMoments:
    """Sums of `torch_moments.moments`, for rows on a card, by the fused kernels."""

    def __init__(self, loadings: FloatArray, offset: FloatArray, n_moments: int, *, single: bool) -> None:
        table = make_table(loadings, offset, single=single)
        self.table = make_table(loadings, offset, single=False) if table is None else table
        self.n_moments = n_moments
        size = 4 if self.table.squared else 8
        self.shape, self.fused = choose_shape(len(offset), len(self.table.vectors), n_moments, size)

    def __call__(self, design: Any, weights: Any) -> Any:
        """Smooth, peak and moments over some rows, one vector of float64 on their device."""
        found = launch(design, weights, self.table, self.n_moments, self.shape, fused=self.fused)
        if self.table.squared:  # what the square has beside the logits that were asked for
            found[:2] += self.table.scale * _sum_of_squares(design[-1], weights)
        return found


def _sum_of_squares(column: Any, weights: Any) -> Any:
    if weights is None:
        return torch.linalg.vector_norm(column, dtype=torch.float64) ** 2
    return (column * column * weights).sum(dtype=torch.float64)
