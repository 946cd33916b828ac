// Layout of a cached order, in the byte order of the machine that wrote it:
//
//   Header | identity | chosen | rows [header.rows] | cols [header.cols]
//
// The file holds the whole identity, since its name is only a hash of it.
#include "formats/io/order_cache.hpp"

#include <array>
#include <bit>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

#include "formats/base/check.hpp"
#include "formats/base/hash.hpp"
#include "formats/io/cache_file.hpp"

namespace tessera {
namespace {

constexpr std::array<char, 8> kMagic = {'t', 'e', 's', 's', 'o', 'r', 'd', '\n'};
constexpr std::uint32_t kVersion = 1;
constexpr std::uint32_t kByteOrder = 0x01020304;
constexpr std::int32_t kNoColumns = -1;  // columns keep their order
constexpr std::int64_t kUnknown = -1;

struct Header {
  std::array<char, 8> magic = kMagic;
  std::uint32_t version = kVersion;
  std::uint32_t byte_order = kByteOrder;
  std::int32_t rows = 0;
  std::int32_t cols = kNoColumns;
  std::uint32_t identity_bytes = 0;
  std::uint32_t chosen_bytes = 0;
  std::uint64_t seconds = 0;  // the bits of a double
  std::int64_t peak_bytes = kUnknown;
  std::int32_t threads = 0;
  std::uint32_t reserved = 0;
  std::uint64_t checksum = 0;  // of this header with zero here, and of all behind it
};
static_assert(std::has_unique_object_representations_v<Header>, "padding would be hashed");

std::uint64_t checksum_of(Header header, std::string_view behind) {
  header.checksum = 0;
  const std::array<std::uint64_t, 2> parts = {checksum(std::as_bytes(std::span(&header, 1))),
                                              checksum(std::as_bytes(std::span(behind)))};
  return checksum(std::as_bytes(std::span(parts)));
}

std::size_t bytes_behind(const Header& header) {
  const auto indices = [](std::int32_t count) { return count > 0 ? std::size_t{4} * count : 0; };
  return std::size_t{header.identity_bytes} + header.chosen_bytes + indices(header.rows) +
         indices(header.cols);
}

void append(std::string& file, const Permutation& permutation) {
  const auto bytes = std::as_bytes(permutation.old_of_new());
  file.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

Permutation take_permutation(std::string_view& rest, std::int32_t size) {
  std::vector<std::int32_t> indices(size);
  const std::size_t bytes = indices.size() * sizeof(std::int32_t);
  if (bytes > 0) std::memcpy(indices.data(), rest.data(), bytes);
  rest.remove_prefix(bytes);
  return Permutation(std::move(indices));
}

/// The fault of a cached file, or "" when it can be used; fills in the header.
std::string problem_with(std::string_view file, std::string_view identity, Header& header) {
  if (file.size() < sizeof(Header)) return "it is too short";
  std::memcpy(&header, file.data(), sizeof(Header));
  const std::string_view behind = file.substr(sizeof(Header));
  if (header.magic != kMagic) return "it is no cached order";
  if (header.version != kVersion) return fmt::format("it has format version {}", header.version);
  if (header.byte_order != kByteOrder) return "it is from a machine of the other byte order";
  if (header.rows < 0 || header.cols < kNoColumns || behind.size() != bytes_behind(header) ||
      header.checksum != checksum_of(header, behind))
    return "it is damaged";
  if (behind.substr(0, header.identity_bytes) != identity) return "it holds another order";
  return "";
}

KeptOrder order_behind(const Header& header, std::string_view rest) {
  rest.remove_prefix(header.identity_bytes);
  KeptOrder order;
  order.chosen = rest.substr(0, header.chosen_bytes);
  rest.remove_prefix(header.chosen_bytes);
  order.rows = take_permutation(rest, header.rows);
  if (header.cols != kNoColumns) order.cols = take_permutation(rest, header.cols);
  order.seconds = std::bit_cast<double>(header.seconds);
  order.threads = header.threads;
  if (header.peak_bytes != kUnknown) order.peak_bytes = header.peak_bytes;
  return order;
}

}  // namespace

std::string OrderCache::path(std::string_view identity) const {
  Hasher hasher;
  hasher.add(identity);
  return fmt::format("{}/orders/{}", folder_, hasher.hex128());
}

std::optional<KeptOrder> OrderCache::load(std::string_view identity) const {
  if (folder_.empty()) return std::nullopt;
  const std::optional<std::string> file = read_cache_file(path(identity));
  if (!file) return std::nullopt;
  Header header;
  const std::string problem = problem_with(*file, identity, header);
  if (!problem.empty()) {
    report_unused(path(identity), problem);
    return std::nullopt;
  }
  try {
    return order_behind(header, std::string_view(*file).substr(sizeof(Header)));
  } catch (const Error& error) {  // no permutation, whatever the checksum says
    report_unused(path(identity), error.what());
    return std::nullopt;
  }
}

void OrderCache::store(const KeptOrder& order, std::string_view identity) const {
  if (folder_.empty()) return;
  Header header;
  header.rows = order.rows.size();
  if (order.cols) header.cols = order.cols->size();
  header.identity_bytes = static_cast<std::uint32_t>(identity.size());
  header.chosen_bytes = static_cast<std::uint32_t>(order.chosen.size());
  header.seconds = std::bit_cast<std::uint64_t>(order.seconds);
  header.peak_bytes = order.peak_bytes.value_or(kUnknown);
  header.threads = order.threads;
  std::string behind = std::string(identity) + order.chosen;
  behind.reserve(bytes_behind(header));
  append(behind, order.rows);
  if (order.cols) append(behind, *order.cols);
  header.checksum = checksum_of(header, behind);

  std::string file(reinterpret_cast<const char*>(&header), sizeof header);
  file += behind;
  write_cache_file(path(identity), std::as_bytes(std::span(file)));
}

}  // namespace tessera
