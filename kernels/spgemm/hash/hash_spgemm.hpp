// What hash_spgemm's host and device half have to agree on.
#pragma once

#include "kernels/spgemm/hash/hash_rows.hpp"

namespace tessera::hash_spgemm {

/// All rows in hash tables.
inline hash_rows::Options options(const Params& params) { return hash_rows::options(params); }

}  // namespace tessera::hash_spgemm
