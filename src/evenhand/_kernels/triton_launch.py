"""Launch the Triton kernels: a table of what belongs to the atoms, shapes of programs, sums in order."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
import triton.language as tl

from evenhand._kernels.triton_moments import lows_kernel, moments_kernel
from evenhand._utils.typing import AnyArray, FloatArray

MOST_COLUMNS = 16  # of a row: loops over them are unrolled
REGISTERS = 210  # of the 255 that a thread may hold: the rest is for rows, addresses and loops
MANY_ROWS = 1 << 30  # their places, and those a step beyond the last, need 64 bits
FAR_ATOM = 1e15  # where atoms stand that fill up a tile: their power is zero, and their square a float32
FAR_LOGIT = 1e30  # the same for negative logits

# Measured on an H200: the more rows a program holds, the better, as long as all is in registers, and the
# fewer lanes share a row, the fewer shuffles it takes to reduce it (docs/how-to/gpu.md).
_FUSED = (
    (32, 4),
    (16, 4),
    (32, 8),
    (16, 8),
    (8, 8),
    (8, 16),
    (4, 16),
    (4, 32),
    (2, 32),
    (1, 32),
)  # rows, lanes
_TILED = ((8, 16, 8), (4, 16, 8), (4, 16, 4), (2, 16, 4), (2, 16, 2), (2, 16, 1))  # rows, lanes, pieces
_FUSED_PROGRAMS, _TILED_PROGRAMS, _LOWS_PROGRAMS = 32, 8, 16  # for each multiprocessor


@dataclass(frozen=True, slots=True)
class Shape:
    """How programs are laid out."""

    rows: int  # of a block
    width: int  # lanes that share a row
    chunks: int  # pieces of a tile of atoms
    fused: bool  # all atoms are in one tile, and one pass is enough

    @property
    def tile(self) -> int:
        """Atoms of a tile."""
        return self.width * self.chunks

    def registers(self, n_vectors: int, n_moments: int, size: int) -> int:
        """About what a thread holds: powers, sums and what belongs to its atoms, of `size` bytes each."""
        held = self.rows * self.tile // 32
        return size // 4 * (held * (1 + n_moments) + n_vectors * self.chunks)


@cache
def choose_shape(n_atoms: int, n_vectors: int, n_moments: int, size: int) -> Shape:
    """The layout for as many atoms, with numbers of `size` bytes.

    >>> choose_shape(201, n_vectors=4, n_moments=1, size=4)
    Shape(rows=8, width=8, chunks=26, fused=True)
    >>> choose_shape(2001, n_vectors=4, n_moments=1, size=4)
    Shape(rows=8, width=16, chunks=8, fused=False)
    """
    shapes = [Shape(rows, width, -(-n_atoms // width), True) for rows, width in _FUSED]
    shapes += [Shape(*tiled, False) for tiled in _TILED]
    fits = (shape for shape in shapes if shape.registers(n_vectors, n_moments, size) <= REGISTERS)
    return next(fits, shapes[-1])


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """What belongs to the atoms, as the kernels read it."""

    vectors: FloatArray  # (n_vectors, n_atoms)
    filler: FloatArray  # the same of an atom that is not there, (n_vectors,)
    scale: float = 0.0  # s of a squared cost `s (y - eta)^2` in float32; 0: any cost in float64
    root: float = 0.0  # what the score is multiplied by, its square root
    ratio: float = 1.0  # of the logits that are computed to those that were asked for

    @property
    def squared(self) -> bool:
        """Whether this is for the squared cost, in float32."""
        return self.scale > 0.0

    def padded(self, n_atoms: int) -> AnyArray:
        """The vectors, filled up to as many atoms, in the precision of the kernels."""
        filled = np.empty((len(self.vectors), n_atoms), np.float32 if self.squared else np.float64)
        filled[:, : self.vectors.shape[1]] = self.vectors
        filled[:, self.vectors.shape[1] :] = self.filler[:, None]
        return filled


def complete_square(loadings: FloatArray, offset: FloatArray) -> tuple[float, FloatArray] | None:
    """`s` and `y` with `loadings = 2 s y` and `offset = -s y^2`, the squared cost; None where it is none.

    >>> complete_square(np.array([-4.0, 0.0, 4.0]), np.array([-2.0, 0.0, -2.0]))
    (2.0, array([-1.,  0.,  1.]))
    >>> complete_square(np.array([-4.0, 0.0, 4.0]), np.array([-2.0, 1.0, -2.0]))
    """
    top = int(np.argmax(np.abs(loadings)))
    if not offset[top] < 0.0:
        return None
    scale = -(loadings[top] ** 2) / (4.0 * offset[top])
    atoms = loadings / (2.0 * scale)
    rest = np.abs(offset + scale * atoms**2).max()
    return (float(scale), atoms) if rest <= 1e-9 * scale * float((atoms**2).max()) else None


def make_table(loadings: FloatArray, offset: FloatArray, *, single: bool) -> Table:
    """Negative loadings and offset; with `single` for float32, where the cost is squared."""
    square = complete_square(loadings[:, -1], offset) if single and loadings.shape[1] > 1 else None
    if square is None:
        vectors = -np.vstack([loadings.T, offset])
        return Table(vectors, np.append(np.zeros(len(vectors) - 1), FAR_LOGIT))
    scale, atoms = square
    root = float(np.float32(np.sqrt(scale)))  # exact in float32: only the temperature is rounded
    ratio = root**2 / scale
    tilts, places = -ratio * loadings[:, :-1].T, root * atoms[None]
    high_tilts, high_places = (part.astype(np.float32).astype(np.float64) for part in (tilts, places))
    vectors = np.vstack([high_tilts, tilts - high_tilts, high_places, places - high_places])
    filler = np.append(np.zeros(len(vectors) - 2), [FAR_ATOM, 0.0])
    return Table(vectors, filler, scale, root, ratio)


class FusedMoments:
    """Sums over rows on a card by the fused kernels: those of `torch_moments.moments`.

    Little is done between two kernels, which take a millisecond or so: a table is sent to the card once.
    """

    def __init__(
        self,
        loadings: FloatArray,
        offset: FloatArray,
        n_moments: int,
        device: Any,
        *,
        single: bool,
        shape: Shape | None = None,
    ) -> None:
        self.table = make_table(loadings, offset, single=single)
        self.real = torch.float32 if self.table.squared else torch.float64
        self.n_moments, self.n_atoms, n_vectors = n_moments, len(offset), len(self.table.vectors)
        self.shape = shape or choose_shape(self.n_atoms, n_vectors, n_moments, self.real.itemsize)
        self.n_tiles = -(-self.n_atoms // self.shape.tile)
        vectors = self.table.padded(self.n_tiles * self.shape.tile)
        self.vectors = torch.from_numpy(vectors).to(device)

    def __call__(self, design: Any, weights: Any) -> Any:
        """Sums over rows (n_columns, n_rows), one vector of float64 on their device, for `finish`.

        Rows without weights count one each.
        """
        n_rows, shape, table, padded = design.shape[1], self.shape, self.table, self.vectors.shape[1]
        given = design, design.stride(0), design if weights is None else weights, self.vectors, -table.root
        common = {
            "N_COLUMNS": len(design),
            "SQUARED": table.squared,
            "WEIGHTED": weights is not None,
            "WIDE": n_rows >= MANY_ROWS,
            "REAL": tl.float32 if table.squared else tl.float64,
            "num_warps": 1,
        }
        per_processor = _FUSED_PROGRAMS if shape.fused else _TILED_PROGRAMS
        n_programs = _count_programs(design.device, per_processor, n_rows, shape.rows)
        sums = self.vectors.new_empty((n_programs, 2 + self.n_moments * padded), dtype=torch.float64)
        lows = masses = self.vectors
        if not shape.fused:
            lows, masses = self.vectors.new_empty((2, n_rows))
            of_rows = _find_lows(given, lows, masses, shape, padded, common)
        moments_kernel[(n_programs, self.n_tiles)](
            *given, lows, masses, sums, n_rows, padded,
            N_MOMENTS=self.n_moments, ROWS=shape.rows, WIDTH=shape.width, CHUNKS=shape.chunks,
            KNOWN=not shape.fused, **common,
        )  # fmt: skip
        total = sums.sum(dim=0)
        if not shape.fused:
            total[:2] = of_rows.sum(dim=0)
        return total

    def finish(self, found: FloatArray, mean_square: float) -> tuple[float, FloatArray, float]:
        """Smooth, moments and peak from means of sums over rows, and the mean of the last column's square.

        A completed square has that beside the logits that were asked for.
        """
        table, beside = self.table, self.table.scale * mean_square
        columns = found[2:].reshape(self.n_moments, -1)[:, : self.n_atoms]
        peak = found[1] / table.ratio + beside
        return float(found[0] / table.ratio + peak), columns, float(peak)


def _find_lows(
    given: tuple[Any, ...], lows: Any, masses: Any, shape: Shape, padded: int, common: dict[str, Any]
) -> Any:
    """The first of two passes: fills `lows` and `masses`, and returns their sums for each program."""
    rows = 32 if common["SQUARED"] else 16
    n_programs = _count_programs(lows.device, _LOWS_PROGRAMS, len(lows), rows)
    of_rows = torch.empty((n_programs, 2), dtype=torch.float64, device=lows.device)
    width = 8  # its tiles, of up to 64 atoms, are whole parts of those of the second pass
    lows_kernel[(n_programs,)](
        *given, lows, masses, of_rows, len(lows), padded,
        ROWS=rows, WIDTH=width, CHUNKS=min(8, shape.tile // width), **common,
    )  # fmt: skip
    return of_rows


def _count_programs(device: Any, per_processor: int, n_rows: int, rows: int) -> int:
    return max(1, min(_multiprocessors(device) * per_processor, -(-n_rows // rows)))


@cache
def _multiprocessors(device: Any) -> int:
    """Multiprocessors of a card; one where the kernels are interpreted."""
    if device.type != "cuda":
        return 1
    return int(torch.cuda.get_device_properties(device).multi_processor_count)
