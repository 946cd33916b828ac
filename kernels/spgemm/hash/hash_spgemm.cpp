// SpGEMM in two phases of hashing as in Nsparse (Nagasaka, Nukada, Matsuoka: High-performance and
// memory-saving sparse general matrix-matrix multiplication for NVIDIA Pascal GPU, ICPP 2017).
//
// Rows are sorted into bins by their products; each row's distinct columns are counted in a hash
// table, in shared memory where it fits; offsets are summed up; rows are sorted into bins by their
// nonzeros, multiplied in a hash table, and sorted by column. Departures: products of a row are
// dealt to lanes one by one, whatever the rows of B they come from; terms of an element are added
// in the order of A's columns (sums = atomic is the published way); rows are sorted by a bitonic
// network instead of counting smaller keys; no attempt at counting large rows in too small a table.

#include "kernels/spgemm/hash/hash_spgemm.hpp"

#include "formats/base/registry.hpp"

namespace tessera {
namespace {

const Register<SpgemmKernel> entry{{
    .name = "hash_spgemm",
    .summary = "rows of C counted and made in hash tables (after Nsparse, FP32)",
    .params = hash_rows::params(),
    .make =
        [](const Params& params) {
          return std::make_unique<hash_rows::HashRowsKernel>(hash_spgemm::options(params));
        },
}};

}  // namespace
}  // namespace tessera
