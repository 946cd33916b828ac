// SpGEMM with a method for each row as in spECK (Parger, Winter, Mlakar, Steinberger: spECK:
// accelerating GPU sparse matrix-matrix multiplication through lightweight analysis, PPoPP 2020).
//
// The analysis finds the products and the column range of each row. A row of A with one nonzero
// gives a scaled row of B. Where the columns of a row of C lie close, its table is indexed by
// column and needs neither probing nor sorting; other rows are hashed. Rows beyond shared memory
// use a dense table in windows of columns where searching the rows of B costs less than the
// products, else a hash table in global memory. Departures: bins and tables are those of
// hash_spgemm; products are added in the order of A's columns (sums = atomic is the published way);
// rows are not balanced further, and lanes take products one by one, where spECK gives a row of B
// lanes by its length.

#include "kernels/spgemm/hash/speck_spgemm.hpp"

#include "formats/base/registry.hpp"

namespace tessera {

std::vector<ParamSpec> speck_spgemm::params() {
  std::vector<ParamSpec> params = hash_rows::params();
  params.push_back({"dense",
                    2.0,
                    "largest size of a dense table, in multiples of the hash table's slots",
                    {},
                    0,
                    1024});
  return params;
}

hash_rows::Options speck_spgemm::options(const Params& params) {
  hash_rows::Options options = hash_rows::options(params);
  options.choice.copies = true;
  options.choice.dense_per_slot = params.real("dense");
  return options;
}

namespace {

const Register<SpgemmKernel> entry{{
    .name = "speck_spgemm",
    .summary = "copies rows of C, or multiplies them in dense or hash tables (after spECK, FP32)",
    .params = speck_spgemm::params(),
    .make =
        [](const Params& params) {
          return std::make_unique<hash_rows::HashRowsKernel>(speck_spgemm::options(params));
        },
}};

}  // namespace
}  // namespace tessera
