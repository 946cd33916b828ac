/* The C interface of tessera: sparse times dense products on GPUs and CPUs, and the testbed around
 * them (orders, formats, emulation, error measures, simulation, advice) as functions.
 *
 * One shared library, libtessera.so, exports these functions and nothing else. They take and return
 * plain C types: no C++ object and no exception crosses them, a CUDA stream is a void*, and text is
 * UTF-8 that ends with a zero. The header needs C99 or C++ and neither CUDA nor any other header of
 * the project. A library built without CUDA has every function; those that need a GPU then fail
 * with TESSERA_UNSUPPORTED.
 *
 * M x K is the shape of A (sparse), K x N that of B and M x N that of C (dense, row-major).
 *
 * Every function that can fail returns a status, and tessera_last_error() then has the cause. A
 * call that fails writes nothing but, perhaps, parts of the arrays that it was to fill, and sets
 * every pointer that it was to return to NULL. All functions may be called from any thread, and at
 * the same time, unless they say otherwise.
 */
#ifndef TESSERA_H
#define TESSERA_H

#include <stdint.h>

#if defined(__GNUC__)
#define TESSERA_API __attribute__((visibility("default")))
#else
#define TESSERA_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the library ----------------------------------------------------------------------------- */

/* The number of this interface. It grows when a function or a field is added, and the major version
 * of the shared library grows when one changes or goes. */
#define TESSERA_ABI_VERSION 2
TESSERA_API int32_t tessera_abi_version(void);

/* "tessera 0.1.0 (commit 1234567)": lives as long as the library. */
TESSERA_API const char* tessera_version(void);

typedef int32_t tessera_status;
enum {
  TESSERA_OK = 0,
  TESSERA_INVALID = 1,       /* a mistake that the caller can mend: a shape, a name, a pointer */
  TESSERA_UNSUPPORTED = 2,   /* a legitimate request that cannot be done, here or at all */
  TESSERA_OUT_OF_MEMORY = 3, /* of the host or of the device */
  TESSERA_DEVICE_ERROR = 4,  /* CUDA failed; most of its errors make the device unusable */
  TESSERA_STOPPED = 5,       /* the flag of tessera_set_stop() ended the call */
  TESSERA_INTERNAL = 6       /* anything else: a mistake of this library, a file that fails */
};

/* The cause of the last failure of a call of this thread; "" when there was none. It lives until
 * the next call of this thread that fails. */
TESSERA_API const char* tessera_last_error(void);

/* Frees a text that a function returned. NULL is allowed. */
TESSERA_API void tessera_free(char* text);

/* The number of CPU threads that calls may use; 0 for $TESSERA_THREADS, else every CPU that this
 * process may run on. Holds for the whole process. Fails with TESSERA_INVALID for a negative one.
 */
TESSERA_API tessera_status tessera_set_threads(int32_t threads);

/* Calls of this thread end with TESSERA_STOPPED soon after *flag, which another thread or a signal
 * handler may set, is no longer 0. NULL, as at first, for calls that run to their end. The flag has
 * to live until it is replaced. Of a long call, only work on the CPU ends early. */
TESSERA_API void tessera_set_stop(const volatile int32_t* flag);

/* 1 when this library was built with CUDA and this machine has a GPU that it can use, else 0 and
 * the reason in tessera_last_error(). */
TESSERA_API int32_t tessera_has_gpu(void);

/* The program `tessera` as a function, for a main() of its own: the command line with the name of
 * the program first, [argc]. Returns the exit code. It may start processes from /proc/self/exe and
 * takes SIGINT while a verb runs: a process that is more than the program calls other functions. */
TESSERA_API int32_t tessera_main(int32_t argc, char** argv);

/* ---- matrices -------------------------------------------------------------------------------- */

/* A sparse matrix in compressed sparse rows, in host memory of the caller, who keeps it as it is
 * during the call. Columns ascend and are distinct within a row; zeros may be stored. */
typedef struct tessera_csr {
  int64_t rows;               /* M, below 2^31 */
  int64_t cols;               /* K, below 2^31 */
  int64_t nnz;                /* stored elements */
  const int64_t* row_offsets; /* [rows + 1] from 0 to nnz, never descending */
  const int32_t* col_indices; /* [nnz] from 0 */
  const float* values;        /* [nnz]; NULL for a matrix of ones */
} tessera_csr;

/* Element types of dense operands. */
typedef int32_t tessera_type;
enum {
  TESSERA_FP32 = 0,
  TESSERA_FP16 = 1, /* IEEE binary16 */
  TESSERA_BF16 = 2, /* bfloat16 */
  TESSERA_FP64 = 3  /* of products on the CPU only */
};

/* A matrix that the library owns. */
typedef struct tessera_matrix tessera_matrix;

/* Loads a matrix: a file (Matrix Market, SuiteSparse archive, .npz, edge list, METIS, .smtx), a
 * name in a folder of $TESSERA_DATA, or a formula such as "rmat(scale=14, edge_factor=8)". A file
 * without values has ones. Fails with TESSERA_UNSUPPORTED when there is no such matrix on this
 * machine, and with TESSERA_INVALID, file, line and cause for a file that cannot be read. */
TESSERA_API tessera_status tessera_matrix_load(const char* name, tessera_matrix** matrix);

/* The arrays of a matrix; they live as long as it does. */
TESSERA_API tessera_status tessera_matrix_csr(const tessera_matrix* matrix, tessera_csr* csr);

/* NULL is allowed. */
TESSERA_API void tessera_matrix_destroy(tessera_matrix* matrix);

/* Writes a matrix to a file whose name ends like one of `tessera list files`: .mtx, .npz, ... Fails
 * with TESSERA_INVALID for other names and for files that cannot be written. */
TESSERA_API tessera_status tessera_matrix_write(const tessera_csr* a, const char* path);

/* ---- products on a GPU ----------------------------------------------------------------------- */

/* C = alpha A B + beta C for one A and any number of B: A is packed and uploaded once, the
 * candidate kernels are timed once, and the fastest is kept. */
typedef struct tessera_spmm_plan tessera_spmm_plan;

/* The accuracy of the default kernels. */
typedef int32_t tessera_precision;
enum {
  TESSERA_FASTEST = 0,      /* tessera_spmm or, where a twentieth of A is nonzero, dense_spmm, which
                             * round operands to TF32, or rows_spmm in FP32; for operands of 16 bits,
                             * to which A is rounded on tensor cores, tall_spmm as well */
  TESSERA_TF32 = 1,         /* the same without rows_spmm */
  TESSERA_FP32_ACCURATE = 2 /* rows_spmm, or tessera_spmm in three TF32 products (tf32x3) */
};

/* Fill it with tessera_spmm_options_init() first: fields may be added at its end. */
typedef struct tessera_spmm_options {
  int64_t size; /* sizeof(tessera_spmm_options) of the caller */
  /* Kernels to choose from, with parameters if wanted: "rows_spmm",
   * "tessera_spmm(precision=tf32x3)". 0 of them: those of `precision`. All are deterministic but
   * those named otherwise in `tessera list kernels`. */
  int64_t num_kernels;
  const char* const* kernels; /* [num_kernels] */
  /* Each kernel's format with parameters, as in "bcsr(block_rows=8)"; NULL, or NULL for one of
   * them, for the defaults. */
  const char* const* formats;  /* [num_kernels] or NULL */
  tessera_precision precision; /* read only when num_kernels is 0 */
  tessera_type type;           /* of B and C: TESSERA_FP32, TESSERA_FP16 or TESSERA_BF16 */
  /* An order of A's rows that suits the kernel, as tessera_reorder() gives it: row i of the
   * reordered A is row row_order[i] of A. C comes back in the order of A. NULL for none. Kernels
   * other than tessera_spmm and rows_spmm need TESSERA_FP32 with it. */
  const int32_t* row_order; /* [M] or NULL */
  int32_t sets_values;      /* 1 to allow tessera_spmm_plan_set_values(); takes 4 bytes a nonzero */
  int32_t strided; /* 1 to allow ldb and ldc above N; takes a copy of B and C; TESSERA_FP32 */
  /* About how often A is multiplied: from 1 to 20, the kernel is chosen by a formula where there is
   * one, in about a millisecond, and nothing is timed. With more, and a choice of kernels, A's rows
   * are also ordered on the GPU where the formulas expect that to pay, and where the products are
   * the faster ones; C comes back in the order of A. 0: often, and no order is looked for. */
  int64_t expected_products;
} tessera_spmm_options;
TESSERA_API void tessera_spmm_options_init(tessera_spmm_options* options);

/* Makes a plan for B and C of n columns on the current CUDA device, and waits for that device. A is
 * not needed afterwards. Of several kernels the one that is fastest now is kept: name one where the
 * same bits are wanted of every plan. `options` may be NULL. Fails with TESSERA_INVALID for an
 * invalid A, n < 1, an unknown kernel or parameter; TESSERA_UNSUPPORTED, with every candidate's
 * reason, when none takes this case, and without a GPU; TESSERA_OUT_OF_MEMORY;
 * TESSERA_DEVICE_ERROR. */
TESSERA_API tessera_status tessera_spmm_plan_create(const tessera_csr* a, int64_t n,
                                                    const tessera_spmm_options* options,
                                                    tessera_spmm_plan** plan);

/* Enqueues C = alpha A B + beta C on the stream (a cudaStream_t; NULL for the default stream) and
 * returns. It allocates nothing and can be captured in a CUDA graph. C is not read when beta is 0.
 *   b  [K x N] on the device, row i at b + i * ldb elements of the plan's type; ldb >= N
 *   c  [M x N] on the device, likewise; it must not overlap b
 * Runs of one plan share its workspace: they have to run one after another, on one stream or by
 * events. Results are the same bits every time. Fails with TESSERA_INVALID for a null pointer, a
 * leading dimension below N, or above N without `strided`, overlap, and another current device. */
TESSERA_API tessera_status tessera_spmm_plan_run(tessera_spmm_plan* plan, const void* b,
                                                 int64_t ldb, void* c, int64_t ldc, float alpha,
                                                 float beta, void* stream);

/* The same for a batch: C_i = alpha A B_i + beta C_i for i from 0 to count - 1, where B_i is at
 * b + i * stride_b elements and C_i at c + i * stride_c. Enqueues the products one after another.
 * (B_i whose columns lie side by side, a row of all of them after the other, are one B of count * N
 * columns: a plan of that width multiplies them in one launch.) Fails also for a count or stride
 * below 0 and for C that overlap. Since version 2. */
TESSERA_API tessera_status tessera_spmm_plan_run_batch(tessera_spmm_plan* plan, int64_t count,
                                                       const void* b, int64_t ldb, int64_t stride_b,
                                                       void* c, int64_t ldc, int64_t stride_c,
                                                       float alpha, float beta, void* stream);

/* Replaces A's values for all later runs on the stream; the pattern stays.
 *   values  [nnz] FP32 on the device, in the order of the CSR arrays of A
 * Enqueues work on the stream and returns; the values may be overwritten once that work is done.
 * Fails with TESSERA_INVALID for a plan without `sets_values`. (A kernel whose packed values are no
 * plain copies of A's cannot do it; tessera_spmm_plan_create() leaves it out of such plans.) */
TESSERA_API tessera_status tessera_spmm_plan_set_values(tessera_spmm_plan* plan,
                                                        const float* values, void* stream);

/* Bytes on the device beside the packed A: copies of operands, orders. 0 for NULL. */
TESSERA_API int64_t tessera_spmm_plan_workspace_bytes(const tessera_spmm_plan* plan);

/* The plan as JSON: rows, cols, n, type, kernel with every parameter, packed_bytes,
 * workspace_bytes, and for every candidate its median time in microseconds or why it was left out.
 * Free the text with tessera_free(). */
TESSERA_API tessera_status tessera_spmm_plan_describe(const tessera_spmm_plan* plan, char** json);

/* Frees a plan; its runs must have ended. NULL is allowed. */
TESSERA_API void tessera_spmm_plan_destroy(tessera_spmm_plan* plan);

/* ---- the same product on the CPU ------------------------------------------------------------- */

/* C = alpha A B + beta C in host memory; returns when it is done. The result has the same bits at
 * any number of threads and on every machine: elements are summed in FP64 in the order of A's
 * columns and rounded at the end, those of FP16 and BF16 to FP32 first.
 *   type    of B and C
 *   values  [nnz] FP64 values of A, read instead of a->values when `type` is TESSERA_FP64; NULL to
 *           use a->values. NULL for every other type.
 *   b  [K x N], row i at b + i * ldb elements; ldb >= N
 *   c  [M x N], likewise; not read when beta is 0; it must not overlap b
 * Fails with TESSERA_INVALID for an invalid A, n < 1, a null pointer or a leading dimension below
 * N. */
TESSERA_API tessera_status tessera_spmm_cpu(const tessera_csr* a, int64_t n, tessera_type type,
                                            const double* values, const void* b, int64_t ldb,
                                            void* c, int64_t ldc, double alpha, double beta);

/* ---- a product of two dense matrices at the nonzeros of A (SDDMM) -----------------------------
 */

/* S = X Y^T at the nonzeros of A alone, or that times the values of A: one element of S for each
 * stored element of A, in the order of its CSR arrays. Here A is M x N, X is M x K and Y is N x K,
 * row-major without gaps. The gradient of C = A B by A's values is such a product: X is the
 * gradient by C, Y is B. */
typedef struct tessera_sddmm_plan tessera_sddmm_plan;

/* Fill it with tessera_sddmm_options_init() first: fields may be added at its end. */
typedef struct tessera_sddmm_options {
  int64_t size; /* sizeof(tessera_sddmm_options) of the caller */
  /* Kernels to choose from, with parameters if wanted: "rows_sddmm",
   * "tessera_sddmm(precision=tf32x3)". 0 of them: those of `precision`, which are tessera_sddmm and
   * rows_sddmm as for products with a dense B. */
  int64_t num_kernels;
  const char* const* kernels;  /* [num_kernels] */
  tessera_precision precision; /* read only when num_kernels is 0 */
  tessera_type type;           /* of X and Y: TESSERA_FP32, TESSERA_FP16 or TESSERA_BF16 */
  int32_t narrow_result;       /* 1: S has that type, too; 0: S is FP32 */
  int32_t scales_by_a;         /* 1: S is multiplied by the values of A */
} tessera_sddmm_options;
TESSERA_API void tessera_sddmm_options_init(tessera_sddmm_options* options);

/* Makes a plan for X and Y of k columns on the current CUDA device, and waits for that device. A is
 * not needed afterwards. `options` may be NULL. Fails as tessera_spmm_plan_create() does. */
TESSERA_API tessera_status tessera_sddmm_plan_create(const tessera_csr* a, int64_t k,
                                                     const tessera_sddmm_options* options,
                                                     tessera_sddmm_plan** plan);

/* Enqueues S on the stream (a cudaStream_t; NULL for the default stream) and returns. It allocates
 * nothing and can be captured in a CUDA graph. Results are the same bits every time.
 *   x  [M x K] and y  [N x K] on the device, of the plan's type
 *   s  [nnz] on the device, FP32 or of that type; it must not overlap x or y
 * Runs of one plan are independent. Fails with TESSERA_INVALID for a null pointer, overlap, and
 * another current device. */
TESSERA_API tessera_status tessera_sddmm_plan_run(tessera_sddmm_plan* plan, const void* x,
                                                  const void* y, void* s, void* stream);

/* Replaces A's values for all later runs on the stream.
 *   values  [nnz] FP32 on the device, in the order of the CSR arrays of A
 * Fails with TESSERA_INVALID for a plan whose S is not multiplied by them. */
TESSERA_API tessera_status tessera_sddmm_plan_set_values(tessera_sddmm_plan* plan,
                                                         const float* values, void* stream);

/* The plan as JSON: rows, cols, nnz, k, type, result, scales_by_a, kernel with every parameter,
 * packed_bytes, and for every candidate its median time in microseconds or why it was left out.
 * Free the text with tessera_free(). */
TESSERA_API tessera_status tessera_sddmm_plan_describe(const tessera_sddmm_plan* plan, char** json);

/* Frees a plan; its runs must have ended. NULL is allowed. */
TESSERA_API void tessera_sddmm_plan_destroy(tessera_sddmm_plan* plan);

/* The same product on the CPU, in host memory; returns when it is done. The result has the same
 * bits at any number of threads and on every machine: elements are summed in FP64 in an order that
 * depends on k alone and rounded at the end; operands of 16 bits are widened first.
 *   type    of X and Y
 *   x  [M x K], row i at x + i * ldx elements, ldx >= K; y  [N x K] likewise
 *   result  the type of S: `type`, or TESSERA_FP32 where that is of 16 bits
 *   scales_by_a  1: S is multiplied by the values of A
 *   values  [nnz] FP64 values of A, read instead of a->values when `type` is TESSERA_FP64; NULL to
 *           use a->values. NULL for every other type.
 *   s  [nnz]; it must not overlap x or y
 * Fails with TESSERA_INVALID for an invalid A, k < 1, a null pointer, a leading dimension below K
 * or another `result`. */
TESSERA_API tessera_status tessera_sddmm_cpu(const tessera_csr* a, int64_t k, tessera_type type,
                                             const double* values, const void* x, int64_t ldx,
                                             const void* y, int64_t ldy, void* s,
                                             tessera_type result, int32_t scales_by_a);

/* ---- the testbed ----------------------------------------------------------------------------- */
/* Variants are named as on the command line: "rcm", "rcm(apply=rows)", "bcsr(block_rows=8)". A
 * JSON text has the names and units of the records (`tessera list columns`); free it with
 * tessera_free(). Unknown names fail with TESSERA_INVALID and the nearest known name. */

/* Finds an order of A (`tessera list reorderings`); row i of the reordered matrix is row rows[i] of
 * A. rows  [M] filled with old row indices cols  [K] filled with old column indices; the identity
 * when columns keep their order json  reorder_s, reorder_threads, moves_columns (bool), cut_short
 * (bool), chosen; or NULL A reordering that *flag of tessera_set_stop() ends gives its best order
 * until then, and cut_short. Fails with TESSERA_UNSUPPORTED for a matrix that it cannot order. */
TESSERA_API tessera_status tessera_reorder(const tessera_csr* a, const char* reordering,
                                           int32_t* rows, int32_t* cols, char** json);

/* Packs A (`tessera list formats`) and describes the result: format, pack_s (seconds),
 * round_trip_exact, footprint_bytes, index_bytes, tiles, mean_nnz_tc (nonzeros a tile),
 * tile_density (share of a tile), padding_ratio (stored zeros a nonzero), arrays (name, elements,
 * bytes). Fails with TESSERA_UNSUPPORTED for a matrix that exceeds the format's limits. */
TESSERA_API tessera_status tessera_pack(const tessera_csr* a, const char* format, char** json);

/* C = A B as a kernel computes it on a GPU, bit for bit, on the CPU (`tessera list kernels`).
 *   format  of A with parameters; NULL for the kernel's own
 *   device  a described device (`tessera list devices`): its generation of tensor cores; NULL: h200
 *   b  [K x n] FP32, row i at b + i * ldb elements; ldb >= n
 *   c  [M x n] FP32, likewise
 * Fails with TESSERA_UNSUPPORTED for a kernel that adds in no fixed order, and for closed
 * libraries. */
TESSERA_API tessera_status tessera_emulate(const tessera_csr* a, int64_t n, const char* kernel,
                                           const char* format, const char* device, const float* b,
                                           int64_t ldb, float* c, int64_t ldc);

/* The errors of a computed C against the product in FP64 with compensated sums, and whether all of
 * C is inside the bound that follows from a kernel's arithmetic. kernel, format, device  as for
 * tessera_emulate(); kernel NULL: sums in FP32, in any order b, c    as for tessera_emulate() json
 * ok (bool), reason, and the measures of `check` in a record: smape_pct (percent),
 *           relative_frobenius, max_rel, backward_error (p50, p95, p99, max), max_ulp, condition,
 *           bound_ratio, compared, beyond_bound, non_finite, worst (row, col, expected, computed,
 *           bound), ...; ratios have no unit */
TESSERA_API tessera_status tessera_errors(const tessera_csr* a, int64_t n, const char* kernel,
                                          const char* format, const char* device, const float* b,
                                          int64_t ldb, const float* c, int64_t ldc, char** json);

/* The simulated product on a described device.
 *   kernel  "auto" for the one that a simulation expects to be fastest
 *   format  as for tessera_emulate()
 *   device  NULL: h200
 *   cold    1 to begin with B and C outside the L2 cache, 0 for a warm one
 *   json    kernel, format, origin ("simulated"), prediction (time_us, bound_by), simulation
 * (parts, warp_time, waves, sm_balance, ...), counters (under the names of the hardware's) Fails
 * with TESSERA_UNSUPPORTED for a kernel without a trace and a device that lacks a quantity. */
TESSERA_API tessera_status tessera_simulate(const tessera_csr* a, int64_t n, const char* kernel,
                                            const char* format, const char* device, int32_t cold,
                                            char** json);

/* The same product as it runs: which thread block ran when on which SM, and the operations of one
 * of them. thread_block  of the longest launch, whose operations are kept; -1 for the longest json
 * about (time_us, bound_by, launch, thread_block, ...) and three tables as CSV texts:
 *         thread_blocks, operations, balance; times in microseconds */
TESSERA_API tessera_status tessera_timeline(const tessera_csr* a, int64_t n, const char* kernel,
                                            const char* format, const char* device, int32_t cold,
                                            int64_t thread_block, char** json);

/* Fill it with tessera_advice_options_init() first. */
typedef struct tessera_advice_options {
  int64_t size;               /* sizeof(tessera_advice_options) of the caller */
  const char* device;         /* NULL: h200 */
  int64_t num_orders;         /* 0: the one or two with the largest gain for their time */
  const char* const* orders;  /* [num_orders] reorderings; "none" for none, "all" for every one */
  int64_t num_kernels;        /* 0: all whose operands keep the range of FP32 */
  const char* const* kernels; /* [num_kernels] names */
  int64_t products;           /* that share one preparation; 1000 */
  double max_seconds;         /* answer after this time with what is known by then; 0: no limit */
  int32_t cold;               /* 1: the L2 holds nothing of B and C */
  int32_t quick;              /* 1: rank by the roofline, without simulating */
} tessera_advice_options;
TESSERA_API void tessera_advice_options_init(tessera_advice_options* options);

/* Which order and kernel to use for A and a B of n columns, by prediction. `options` may be NULL.
 * The JSON is that of `tessera advise --json`: ranked (reorder, kernel, format, time_us,
 * preparation_s, pays_after_products, reason, ...), for_products, left_out, complete,
 * not_considered. */
TESSERA_API tessera_status tessera_advise(const tessera_csr* a, int64_t n,
                                          const tessera_advice_options* options, char** json);

#ifdef __cplusplus
}
#endif

#endif
