// The parameters and options of speck_spgemm, for its host and its device half.
#pragma once

#include "kernels/spgemm/hash/hash_rows.hpp"

namespace tessera::speck_spgemm {

std::vector<ParamSpec> params();

/// Rows are copied, or use dense tables or hash tables.
hash_rows::Options options(const Params& params);

}  // namespace tessera::speck_spgemm
