// Benchmarks over a registry are made in main(), because the registry is not complete before.
#pragma once

namespace tessera {

void register_pack_benchmarks();

}  // namespace tessera
