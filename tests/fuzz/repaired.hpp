// Right checksums for mutated archives, so that a fuzzer gets to what they hold.
#pragma once

#include <string>
#include <string_view>

namespace tessera::fuzz {

/// The bytes of a file with this suffix with the CRC-32 of stored zip members (.npz) or the sums of
/// tar headers (.tar...) put right; other bytes are returned as they are. Files that are no
/// archives are not looked at: a fuzzer that sees bytes compared with an archive's magic writes
/// archives.
std::string repaired(const std::string& suffix, std::string_view bytes);

}  // namespace tessera::fuzz
