#include "formats/base/hash.hpp"

#include <fmt/format.h>
#include <xxhash.h>

namespace tessera {

struct Hasher::State {
  XXH3_state_t* xxh = XXH3_createState();
  State() { XXH3_128bits_reset(xxh); }
  ~State() { XXH3_freeState(xxh); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
};

Hasher::Hasher() : state_(std::make_unique<State>()) {}
Hasher::~Hasher() = default;

void Hasher::add_bytes(std::span<const std::byte> bytes) {
  XXH3_128bits_update(state_->xxh, bytes.data(), bytes.size());
}

void Hasher::add(std::string_view text) {
  add_value(static_cast<std::uint64_t>(text.size()));
  add_bytes(std::as_bytes(std::span(text.data(), text.size())));
}

std::string Hasher::hex128() const {
  const XXH128_hash_t digest = XXH3_128bits_digest(state_->xxh);
  return fmt::format("{:016x}{:016x}", digest.high64, digest.low64);
}

std::string Hasher::hex64() const { return hex128().substr(0, 16); }

std::uint64_t checksum(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::string hash_text(std::string_view text) {
  // As Hasher::add() has it, in one piece, which is faster than a stream.
  const auto size = static_cast<std::uint64_t>(text.size());
  std::string bytes(reinterpret_cast<const char*>(&size), sizeof(size));
  bytes += text;
  return fmt::format("{:016x}", XXH3_128bits(bytes.data(), bytes.size()).high64);
}

}  // namespace tessera
