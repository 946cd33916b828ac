// Orders in the cache: what goes in comes out with all that was said of it, or not at all.
#include "formats/io/order_cache.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <numeric>
#include <span>

#include "formats/base/hash.hpp"
#include "formats/base/random.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;

Permutation drawn(std::int32_t size, std::uint64_t seed) {
  std::vector<std::int32_t> order(size);
  std::iota(order.begin(), order.end(), 0);
  for (std::int32_t i = size - 1; i > 0; --i)
    std::swap(order[i], order[random_bits(seed, i) % (i + 1)]);
  return Permutation(std::move(order));
}

/// A cache that holds one order.
struct FilledCache {
  FilledCache() { cache.store(kept, identity); }
  std::optional<KeptOrder> load() const { return cache.load(identity); }

  const std::string identity = "matrix 1 rabbit v1";
  const KeptOrder kept{drawn(37, 1), drawn(53, 2), "rabbit, refined", 1.25, 8, 1 << 30};
  TemporaryFolder folder;
  OrderCache cache{folder.path()};
};

TEST_CASE("an order comes out of the cache as it went in, with its time and memory") {
  const FilledCache filled;

  CHECK(filled.load() == filled.kept);
  CHECK(filled.cache.path("a") ==
        filled.folder / "orders/" + fs::path(filled.cache.path("a")).filename().string());
  CHECK_FALSE(filled.cache.load("matrix 1 rabbit v2").has_value());

  const KeptOrder rows_only{drawn(9, 3), std::nullopt, "", 0.5, 1, std::nullopt};
  const KeptOrder empty{Permutation(), Permutation(), "", 0, 1, 0};
  filled.cache.store(rows_only, "rows only");
  filled.cache.store(empty, "empty");
  CHECK(filled.cache.load("rows only") == rows_only);
  CHECK(filled.cache.load("empty") == empty);
  CHECK(rows_only != empty);
}

TEST_CASE("the cache keeps the order stored last") {
  const FilledCache filled;
  KeptOrder later = filled.kept;
  later.seconds = 2.5;

  filled.cache.store(later, filled.identity);

  CHECK(filled.load() == later);
  const auto files = fs::directory_iterator(filled.folder / "orders");
  CHECK(std::distance(begin(files), end(files)) == 1);  // nothing left beside
}

TEST_CASE("a cached order with any one bit turned, cut off anywhere or prolonged is not used") {
  const FilledCache filled;
  const std::string path = filled.cache.path(filled.identity), whole = read_text(path);

  const Outcome outcome = in_child([&] {  // in a child because each refusal says so on stderr
    int used = 0;
    for (std::size_t byte = 0; byte < whole.size(); ++byte) {
      std::string damaged = whole;
      damaged[byte] = static_cast<char>(damaged[byte] ^ (1 << byte % 8));
      write_text(path, damaged);
      used += filled.load().has_value();
      write_text(path, whole.substr(0, byte));
      used += filled.load().has_value();
    }
    write_text(path, whole + "x");
    used += filled.load().has_value();
    _exit(used == 0 ? 0 : 1);
  });

  CHECK(outcome.exit_code == 0);
  CHECK(outcome.output.find("it is damaged") != std::string::npos);
  CHECK(outcome.output.find("it is too short") != std::string::npos);
  write_text(path, whole);
  CHECK(filled.load() == filled.kept);
}

TEST_CASE("a cached order with a right checksum that is no permutation is not used") {
  const FilledCache filled;
  const std::string path = filled.cache.path(filled.identity);
  std::string file = read_text(path);
  constexpr std::size_t kHeader = 64, kChecksum = 56;
  const std::size_t first = kHeader + filled.identity.size() + filled.kept.chosen.size();
  std::memcpy(file.data() + first, file.data() + first + 4, 4);  // one index twice
  std::memset(file.data() + kChecksum, 0, 8);
  const auto sum = [](std::string_view bytes) { return checksum(std::as_bytes(std::span(bytes))); };
  const std::uint64_t parts[] = {sum(std::string_view(file).substr(0, kHeader)),
                                 sum(std::string_view(file).substr(kHeader))};
  const std::uint64_t whole = checksum(std::as_bytes(std::span(parts)));
  std::memcpy(file.data() + kChecksum, &whole, 8);
  write_text(path, file);

  const Outcome outcome = in_child([&] { _exit(filled.load() ? 1 : 0); });

  CHECK(outcome.exit_code == 0);
  CHECK(outcome.output.find("occurs twice in a permutation") != std::string::npos);
}

TEST_CASE("a folder in the place of a cached order counts as absent, and says so") {
  const FilledCache filled;
  const std::string path = filled.cache.path(filled.identity);
  fs::remove(path);
  fs::create_directory(path);

  const Outcome outcome = in_child([&] { _exit(filled.load() ? 1 : 0); });

  CHECK(outcome.exit_code == 0);
  CHECK(outcome.output.find(path + " is not used: it is no file") != std::string::npos);
}

TEST_CASE("a whole order under another identity's name is not used") {
  const FilledCache filled;
  fs::copy_file(filled.cache.path(filled.identity), filled.cache.path("another"));

  CHECK_FALSE(filled.cache.load("another").has_value());
}

TEST_CASE("without a folder no order is kept") {
  const OrderCache nowhere{std::string()};

  CHECK_NOTHROW(nowhere.store({drawn(4, 5), std::nullopt, "", 1, 1, std::nullopt}, "a"));
  CHECK_FALSE(nowhere.load("a").has_value());
}

}  // namespace
}  // namespace tessera
