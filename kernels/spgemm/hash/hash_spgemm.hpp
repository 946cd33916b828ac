// The options of hash_spgemm, for its host and its device half.
#pragma once

#include "kernels/spgemm/hash/hash_rows.hpp"

namespace tessera::hash_spgemm {

/// All rows use hash tables.
inline hash_rows::Options options(const Params& params) { return hash_rows::options(params); }

}  // namespace tessera::hash_spgemm
