"""Value and moments of softmax policies on a GPU in one pass, without the matrix of rows by atoms.

A program is one warp. It keeps `ROWS` rows x all atoms of a tile in registers, as `CHUNKS` pieces of `WIDTH`
lanes each, walks over the rows, and keeps the moments as one sum for each row of its block and atom, which is
reduced once at the end. Every program writes sums of its own, and these are added in a fixed order: the same
rows give the same bits in every run.

Logits are in units of log 2, and their negatives are what is computed. In float32 the squared cost is
`(y_l - eta)^2`, not expanded, so that it is exact near the atoms that carry the mass, and what belongs to an
atom is split in two numbers: rounding then differs from row to row, and averages out.
"""

import triton
import triton.language as tl


@triton.jit
def _load_rows(
    design,
    stride,
    weights,
    place,
    n_rows,
    N_COLUMNS: tl.constexpr,
    WEIGHTED: tl.constexpr,
    REAL: tl.constexpr,
):
    """Columns of some rows, and their weights: ones where all count alike, zeros beyond the last row."""
    used = place < n_rows
    columns = ()
    for k in tl.static_range(N_COLUMNS):
        column = design + k * tl.cast(stride, tl.int64)
        columns = columns + (tl.load(column + place, mask=used, other=0.0).to(REAL),)
    if WEIGHTED:
        weight = tl.load(weights + place, mask=used, other=0.0).to(REAL)
    else:
        weight = used.to(REAL)
    return columns, weight


@triton.jit
def _load_vectors(
    table, first, padded, lane, N_VECTORS: tl.constexpr, WIDTH: tl.constexpr, CHUNKS: tl.constexpr
):
    """What belongs to the atoms `first : first + CHUNKS * WIDTH`, vector by vector and piece by piece."""
    vectors = ()
    for j in tl.static_range(N_VECTORS):
        for c in tl.static_range(CHUNKS):
            vectors = vectors + (tl.load(table + j * padded + first + c * WIDTH + lane)[None, :],)
    return vectors


@triton.jit
def _negative_logits(
    columns, vectors, negative_root, N_COLUMNS: tl.constexpr, CHUNKS: tl.constexpr, SQUARED: tl.constexpr
):
    """Negative logits of each piece, (ROWS, WIDTH).

    Vectors of a squared cost: high parts of all loadings but the last, their low parts, then the atoms' high
    and low parts. Otherwise: all loadings, then the offset. Products are fused by hand: left to the compiler,
    the two passes over many atoms would round differently.
    """
    values = ()
    N_TILTS: tl.constexpr = N_COLUMNS - 1
    for c in tl.static_range(CHUNKS):
        if SQUARED:
            high, low = vectors[2 * N_TILTS * CHUNKS + c], vectors[(2 * N_TILTS + 1) * CHUNKS + c]
            away = tl.fma(columns[N_TILTS][:, None], negative_root, high) + low
            value = columns[0][:, None] * vectors[N_TILTS * CHUNKS + c]
            for k in tl.static_range(1, N_TILTS):
                value = tl.fma(columns[k][:, None], vectors[(N_TILTS + k) * CHUNKS + c], value)
            for k in tl.static_range(N_TILTS):
                value = tl.fma(columns[k][:, None], vectors[k * CHUNKS + c], value)
            value = tl.fma(away, away, value)
        else:
            value = tl.fma(columns[0][:, None], vectors[c], vectors[N_COLUMNS * CHUNKS + c])
            for k in tl.static_range(1, N_COLUMNS):
                value = tl.fma(columns[k][:, None], vectors[k * CHUNKS + c], value)
        values = values + (value,)
    return values


@triton.jit
def moments_kernel(
    design,
    stride,
    weights,
    table,
    negative_root,
    lows,
    masses,
    out,
    n_rows,
    padded,
    N_COLUMNS: tl.constexpr,
    N_MOMENTS: tl.constexpr,
    ROWS: tl.constexpr,
    WIDTH: tl.constexpr,
    CHUNKS: tl.constexpr,
    SQUARED: tl.constexpr,
    WEIGHTED: tl.constexpr,
    WIDE: tl.constexpr,
    KNOWN: tl.constexpr,
    REAL: tl.constexpr,
):
    """Sums of `w * column * policy` over the rows of a program, for one tile of atoms.

    A program's line of `out` has the sums of log2-sum-exp2 above the largest logit and of the latter first.
    Where the tile is all there is, the rows' smallest negative logits and the sums of their powers are found
    on the way, while the next rows are being loaded; otherwise they are KNOWN, from `lows_kernel`.
    """
    program = tl.program_id(0)
    if WIDE:
        program = program.to(tl.int64)
    step = tl.num_programs(0) * ROWS
    row, lane = tl.arange(0, ROWS), tl.arange(0, WIDTH)
    N_VECTORS: tl.constexpr = 2 * N_COLUMNS if SQUARED else N_COLUMNS + 1
    first = tl.program_id(1) * CHUNKS * WIDTH
    vectors = _load_vectors(table, first, padded, lane, N_VECTORS, WIDTH, CHUNKS)
    sums = ()
    for _ in tl.static_range(N_MOMENTS * CHUNKS):
        sums = sums + (tl.zeros((ROWS, WIDTH), REAL),)
    smooth, peak = tl.zeros((ROWS,), tl.float64), tl.zeros((ROWS,), tl.float64)
    place = program * ROWS + row
    columns, weight = _load_rows(design, stride, weights, place, n_rows, N_COLUMNS, WEIGHTED, REAL)
    for block in range(program * ROWS, n_rows, step):
        place = block + row
        if KNOWN:
            columns, weight = _load_rows(design, stride, weights, place, n_rows, N_COLUMNS, WEIGHTED, REAL)
            low = tl.load(lows + place, mask=place < n_rows, other=0.0)
            mass = tl.load(masses + place, mask=place < n_rows, other=1.0)
            after, weight_after = columns, weight
        else:
            after, weight_after = _load_rows(
                design, stride, weights, place + step, n_rows, N_COLUMNS, WEIGHTED, REAL
            )
        values = _negative_logits(columns, vectors, negative_root, N_COLUMNS, CHUNKS, SQUARED)
        if not KNOWN:
            lowest = values[0]
            for c in tl.static_range(1, CHUNKS):
                lowest = tl.minimum(lowest, values[c])
            low = tl.min(lowest, axis=1)
        powers = ()
        total = tl.zeros((ROWS, WIDTH), REAL)
        for c in tl.static_range(CHUNKS):
            power = tl.exp2(low[:, None] - values[c])
            powers = powers + (power,)
            total += power
        if not KNOWN:
            mass = tl.sum(total, axis=1)
            smooth += weight.to(tl.float64) * tl.log2(mass).to(tl.float64)
            peak -= weight.to(tl.float64) * low.to(tl.float64)
        share = weight / mass
        grown = ()
        for k in tl.static_range(N_MOMENTS):
            factor = share
            if k < N_COLUMNS:
                factor = share * columns[k]
            for c in tl.static_range(CHUNKS):
                grown = grown + (tl.fma(powers[c], factor[:, None], sums[k * CHUNKS + c]),)
        sums, columns, weight = grown, after, weight_after
    mine = out + tl.program_id(0).to(tl.int64) * (2 + N_MOMENTS * padded)
    for k in tl.static_range(N_MOMENTS):
        for c in tl.static_range(CHUNKS):
            of_piece = tl.sum(sums[k * CHUNKS + c], axis=0)
            tl.store(mine + 2 + k * padded + first + c * WIDTH + lane, of_piece.to(tl.float64))
    tl.store(mine, tl.sum(smooth, axis=0))
    tl.store(mine + 1, tl.sum(peak, axis=0))


@triton.jit
def lows_kernel(
    design,
    stride,
    weights,
    table,
    negative_root,
    lows,
    masses,
    rows_out,
    n_rows,
    padded,
    N_COLUMNS: tl.constexpr,
    ROWS: tl.constexpr,
    WIDTH: tl.constexpr,
    CHUNKS: tl.constexpr,
    SQUARED: tl.constexpr,
    WEIGHTED: tl.constexpr,
    WIDE: tl.constexpr,
    REAL: tl.constexpr,
):
    """Smallest negative logit of each row and the sum of its powers, tile by tile, and sums over rows."""
    program = tl.program_id(0)
    if WIDE:
        program = program.to(tl.int64)
    row, lane = tl.arange(0, ROWS), tl.arange(0, WIDTH)
    N_VECTORS: tl.constexpr = 2 * N_COLUMNS if SQUARED else N_COLUMNS + 1
    smooth, peak = tl.zeros((ROWS,), tl.float64), tl.zeros((ROWS,), tl.float64)
    for block in range(program * ROWS, n_rows, tl.num_programs(0) * ROWS):
        place = block + row
        columns, weight = _load_rows(design, stride, weights, place, n_rows, N_COLUMNS, WEIGHTED, REAL)
        lowest = tl.full((ROWS, WIDTH), 3e38, REAL)
        total = tl.zeros((ROWS, WIDTH), REAL)
        for first in range(0, padded, CHUNKS * WIDTH):
            vectors = _load_vectors(table, first, padded, lane, N_VECTORS, WIDTH, CHUNKS)
            values = _negative_logits(columns, vectors, negative_root, N_COLUMNS, CHUNKS, SQUARED)
            before = lowest
            for c in tl.static_range(CHUNKS):
                lowest = tl.minimum(lowest, values[c])
            total = total * tl.exp2(lowest - before)  # what was summed so far, seen from the new lowest
            for c in tl.static_range(CHUNKS):
                total += tl.exp2(lowest - values[c])
        low = tl.min(lowest, axis=1)
        mass = tl.sum(total * tl.exp2(low[:, None] - lowest), axis=1)
        smooth += weight.to(tl.float64) * tl.log2(mass).to(tl.float64)
        peak -= weight.to(tl.float64) * low.to(tl.float64)
        tl.store(lows + place, low, mask=place < n_rows)
        tl.store(masses + place, mass, mask=place < n_rows)
    tl.store(rows_out + 2 * program, tl.sum(smooth, axis=0))
    tl.store(rows_out + 2 * program + 1, tl.sum(peak, axis=0))
