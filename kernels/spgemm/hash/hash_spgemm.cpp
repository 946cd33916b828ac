// SpGEMM in two phases of hashing as in Nsparse (Nagasaka, Nukada, Matsuoka: High-performance and
// memory-saving sparse general matrix-matrix multiplication for NVIDIA Pascal GPU, ICPP 2017).
//
// The kernel sorts rows into bins by their products, and counts each row's distinct columns in a
// hash table, in shared memory where it fits. A prefix sum gives the row offsets. The kernel then
// sorts rows into bins by their nonzeros, multiplies each row in a hash table, and sorts it by
// column. Departures: lanes take the products of a row one by one, across rows of B; the products
// of an element are added in the order of A's columns (sums = atomic is the published way); a
// bitonic network sorts rows, where Nsparse counts smaller keys; there is no attempt to count large
// rows in too small a table.

#include "kernels/spgemm/hash/hash_spgemm.hpp"

#include "formats/base/registry.hpp"

namespace tessera {
namespace {

const Register<SpgemmKernel> entry{{
    .name = "hash_spgemm",
    .summary = "counts and multiplies rows of C in hash tables (after Nsparse, FP32)",
    .params = hash_rows::params(),
    .make =
        [](const Params& params) {
          return std::make_unique<hash_rows::HashRowsKernel>(hash_spgemm::options(params));
        },
}};

}  // namespace
}  // namespace tessera
