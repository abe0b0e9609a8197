/* The loops of src/evenhand/_kernels/softmax.py in C: the yardstick of bench_kernel.py.

   Lanes of 64 rows side by side, logits in units of log 2, the same polynomial for 2^x, the same three
   passes over the atoms of a block (logits and maximum, exponential and total, moments). Compiled once
   with -DSINGLE for float32 and once without for float64. */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define LANES 64
#define FLUSH_BLOCKS 64

#ifdef SINGLE
typedef float real;
typedef int32_t bits;
#define LOWEST (-126.0f)
#define BIAS 127
#define MANTISSA 23
#else
typedef double real;
typedef int64_t bits;
#define LOWEST (-1000.0)
#define BIAS 1023
#define MANTISSA 52
#endif

#define C1 ((real)0.6931471805599453)
#define C2 ((real)0.2402265069591007)
#define C3 ((real)0.05550410866482158)
#define C4 ((real)0.009618129107628477)
#define C5 ((real)0.0013333558146428443)
#define C6 ((real)0.0001540353039338161)
#define C7 ((real)1.525273380405984e-05)
#define C8 ((real)1.3215486790144305e-06)
#define C9 ((real)1.0178086009239699e-07)
#define C10 ((real)7.0549116208011225e-09)
#define C11 ((real)4.4455382718708116e-10)

static inline real exp2_of(real x)
{
    x = x > LOWEST ? x : LOWEST;
    bits k = (bits)(x - (real)0.5);
    real f = x - (real)k;
#ifdef SINGLE
    real high = C6;
#else
    real high = C6 + f * (C7 + f * (C8 + f * (C9 + f * (C10 + f * C11))));
#endif
    real fraction = 1 + f * (C1 + f * (C2 + f * (C3 + f * (C4 + f * (C5 + f * high)))));
    bits exponent = (bits)((uint64_t)(k + BIAS) << MANTISSA);
    real scale;
    memcpy(&scale, &exponent, sizeof scale);
    return fraction * scale;
}

static void logits_into(real *restrict logits, real *restrict top, const real *restrict lanes,
                        const real *restrict loadings, const real *restrict offset, long n_features,
                        long n_atoms)
{
    for (long atom = 0; atom < n_atoms; atom++) {
        real *restrict row = logits + atom * LANES;
        const real *loading = loadings + atom * n_features;
        real bias = offset[atom];
        if (n_features == 2) {
            for (int r = 0; r < LANES; r++) {
                real value = bias + loading[0] * lanes[r] + loading[1] * lanes[LANES + r];
                row[r] = value;
                top[r] = top[r] > value ? top[r] : value;
            }
            continue;
        }
        for (int r = 0; r < LANES; r++)
            row[r] = bias;
        for (long k = 0; k < n_features; k++)
            for (int r = 0; r < LANES; r++)
                row[r] += loading[k] * lanes[k * LANES + r];
        for (int r = 0; r < LANES; r++)
            top[r] = top[r] > row[r] ? top[r] : row[r];
    }
}

static void exp2_into(real *restrict logits, real *restrict total, const real *restrict top, long n_atoms)
{
    for (long atom = 0; atom < n_atoms; atom++) {
        real *restrict row = logits + atom * LANES;
        for (int r = 0; r < LANES; r++) {
            row[r] = exp2_of(row[r] - top[r]);
            total[r] += row[r];
        }
    }
}

static void add_moments_into(real *restrict sums, const real *restrict coefficients,
                             const real *restrict policy, long n_moments, long n_atoms)
{
    for (long k = 0; k < n_moments; k++)
        for (long atom = 0; atom < n_atoms; atom++) {
            real *restrict s = sums + (k * n_atoms + atom) * LANES;
            for (int r = 0; r < LANES; r++)
                s[r] += coefficients[k * LANES + r] * policy[atom * LANES + r];
        }
}

static void flush_into(double *restrict out, real *restrict sums, long count)
{
    for (long i = 0; i < count; i++) {
        double sum = 0;
        for (int r = 0; r < LANES; r++) {
            sum += sums[i * LANES + r];
            sums[i * LANES + r] = 0;
        }
        out[i] += sum;
    }
}

/* Returns sum_i w_i log2sumexp2(logits_i); adds sum_i w_i design[k, i] policy_i[l] to out[k, l]. */
double moments(const real *design, const real *weights, const real *loadings, const real *offset,
               long n_rows, long n_features, long n_atoms, long n_moments, long start, long stop,
               double *out)
{
    long n_sums = n_moments * n_atoms;
    size_t size = (size_t)(n_atoms + n_sums + n_features + n_moments + 2) * LANES * sizeof(real);
    real *logits = aligned_alloc(64, size);
    memset(logits, 0, size);
    real *sums = logits + n_atoms * LANES;
    real *lanes = sums + n_sums * LANES;
    real *coefficients = lanes + n_features * LANES;
    real *top = coefficients + n_moments * LANES;
    real *total = top + LANES;
    double value = 0;
    int pending = 0;
    for (long block = start; block < stop; block += LANES) {
        int count = stop - block < LANES ? (int)(stop - block) : LANES;
        for (long k = 0; k < n_features; k++)
            for (int r = 0; r < count; r++)
                lanes[k * LANES + r] = design[k * n_rows + block + r];
        for (int r = 0; r < LANES; r++) {
            top[r] = (real)-1e30;
            total[r] = 0;
        }
        logits_into(logits, top, lanes, loadings, offset, n_features, n_atoms);
        exp2_into(logits, total, top, n_atoms);
        for (int r = 0; r < LANES; r++) {
            double weight = r < count ? weights[block + r] : 0.0;
            value += weight * (log2((double)total[r]) + top[r]);
            for (long k = 0; k < n_moments; k++)
                coefficients[k * LANES + r] = (real)(weight * lanes[k * LANES + r] / total[r]);
        }
        add_moments_into(sums, coefficients, logits, n_moments, n_atoms);
        if (++pending == FLUSH_BLOCKS) {
            flush_into(out, sums, n_sums);
            pending = 0;
        }
    }
    flush_into(out, sums, n_sums);
    free(logits);
    return value;
}
