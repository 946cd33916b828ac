// What speck_spgemm's host and device half have to agree on.
#pragma once

#include "kernels/spgemm/hash/hash_rows.hpp"

namespace tessera::speck_spgemm {

std::vector<ParamSpec> params();

/// Rows copied, or made in dense tables or hash tables.
hash_rows::Options options(const Params& params);

}  // namespace tessera::speck_spgemm
