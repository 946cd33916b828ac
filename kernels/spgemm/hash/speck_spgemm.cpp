// SpGEMM with a method for each row as in spECK (Parger, Winter, Mlakar, Steinberger: spECK:
// accelerating GPU sparse matrix-matrix multiplication through lightweight analysis, PPoPP 2020).
//
// Products and the range of columns are found for each row first. A row of A with one nonzero is a
// scaled row of B; where the columns of a row of C lie close, its table is indexed by column, and
// needs neither probing nor sorting; other rows are hashed. Rows beyond shared memory are made
// densely, in windows of columns, where searching the rows of B costs less than their products, and
// hashed in global memory else. Departures: bins and tables are those of hash_spgemm, terms in the
// order of A's columns (sums = atomic is the published way); rows are not balanced further, lanes
// take products one by one instead of a number of lanes per row of B that fits its length.

#include "kernels/spgemm/hash/speck_spgemm.hpp"

#include "formats/base/registry.hpp"

namespace tessera {

std::vector<ParamSpec> speck_spgemm::params() {
  std::vector<ParamSpec> params = hash_rows::params();
  params.push_back({"dense",
                    2.0,
                    "a table is dense where it has at most so many times the hash table's slots",
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
    .summary = "rows of C copied, or made in dense or hash tables (after spECK, FP32)",
    .params = speck_spgemm::params(),
    .make =
        [](const Params& params) {
          return std::make_unique<hash_rows::HashRowsKernel>(speck_spgemm::options(params));
        },
}};

}  // namespace
}  // namespace tessera
