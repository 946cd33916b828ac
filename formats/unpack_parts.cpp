#include "formats/unpack_parts.hpp"

namespace tessera {

void unpack_parts(const PackedMatrix& packed, std::int64_t nonzeros, const VisitRows& visit) {
  const auto& registry = Registry<PartsUnpacker>::instance();
  for (const std::string& format : registry.names())
    if (registry.make(format)->unpack(packed, nonzeros, visit)) return;
  visit(packed.unpack());
}

}  // namespace tessera
