// Right checksums for mutated archives, so that a fuzzer gets to what they hold.
#pragma once

#include <string>
#include <string_view>

namespace tessera::fuzz {

/// The bytes with the CRC-32 of stored zip members and the sums of tar headers put right; other
/// bytes are returned as they are.
std::string repaired(std::string_view bytes);

}  // namespace tessera::fuzz
