// Benchmarks over a registry are made when main runs: before, it is not complete.
#pragma once

namespace tessera {

void register_pack_benchmarks();

}  // namespace tessera
