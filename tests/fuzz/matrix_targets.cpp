// Every registered matrix reader, the caches of matrices and orders, and every registered format.
#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "formats/base/hash.hpp"
#include "formats/base/matrix.hpp"
#include "formats/base/permutation.hpp"
#include "formats/base/registry.hpp"
#include "formats/format.hpp"
#include "formats/io/cache.hpp"
#include "formats/io/cache_file.hpp"
#include "formats/io/matrix_file.hpp"
#include "formats/io/order_cache.hpp"
#include "tests/fuzz/repaired.hpp"
#include "tests/fuzz/target.hpp"

namespace tessera::fuzz {
namespace {

void check_valid(const CsrMatrix& matrix, const std::string& from) {
  try {
    validate(matrix);
  } catch (const Error& error) {
    check(false, from + " gave an invalid matrix: " + error.what());
  }
}

/// The bytes as they are, and once more with the checksums of their zip or tar members put right:
/// no mutation would get past these.
void read_file(const std::string& suffix, std::string_view input) {
  const std::string mended = repaired(suffix, input);
  if (mended != input) {
    try {
      check_valid(read_matrix(scratch_file("b" + suffix, mended)), suffix);
    } catch (const Error& error) {
      refused(error);
    }
  }
  check_valid(read_matrix(scratch_file("a" + suffix, input)), suffix);
}

constexpr const char* kHash = "0123456789abcdef0123456789abcdef";

std::string cache_root() {
  const std::string file = scratch_file("cache/root", "");
  return file.substr(0, file.rfind('/'));
}

/// An entry of the cache as bytes, or with right checksums over any arrays.
void read_cached_matrix(std::string_view input) {
  const MatrixCache cache(cache_root());
  Taker bytes(input);
  if (bytes.take<std::uint8_t>() % 2 == 0) {
    scratch_file(std::string("cache/matrices/") + kHash + ".csr", bytes.rest());
  } else {
    CsrMatrix matrix;
    matrix.rows = bytes.take<std::uint8_t>() % 32;
    matrix.cols = bytes.take<std::int32_t>();
    const std::int64_t nnz = bytes.take<std::uint8_t>();
    std::vector<std::int64_t> offsets(matrix.rows + 1);
    for (std::int64_t& offset : offsets) offset = bytes.take<std::int16_t>();
    offsets.back() = nnz;
    std::vector<std::int32_t> cols(nnz);
    std::vector<float> values(nnz);
    for (std::int32_t& col : cols) col = bytes.take<std::int32_t>();
    for (float& value : values) value = bytes.take<float>();
    matrix.row_offsets = std::move(offsets);
    matrix.col_indices = std::move(cols);
    matrix.values = std::move(values);
    cache.store(matrix, kHash);
  }
  if (const std::optional<CsrMatrix> matrix = cache.load(kHash)) check_valid(*matrix, "the cache");
  scratch_file(cache.source_path("identity").substr(cache_root().size() - 5), bytes.rest());
  cache.known_content("identity");
}

/// An entry of the cache of orders with a right checksum, which ends its header.
std::string sealed(std::string entry) {
  constexpr std::size_t kHeader = 64;
  if (entry.size() < kHeader) return entry;
  std::memset(entry.data() + kHeader - 8, 0, 8);
  const auto bytes = std::as_bytes(std::span(entry));
  const std::array<std::uint64_t, 2> parts = {checksum(bytes.first(kHeader)),
                                              checksum(bytes.subspan(kHeader))};
  const std::uint64_t sum = checksum(std::as_bytes(std::span(parts)));
  std::memcpy(entry.data() + kHeader - 8, &sum, 8);
  return entry;
}

/// sealed() knows where the checksum is: it leaves a good entry as it is.
void check_sealed(const OrderCache& cache) {
  cache.store({.rows = Permutation({1, 0, 2}), .cols = std::nullopt, .chosen = "a"}, "identity");
  const std::string good = read_cache_file(cache.path("identity")).value_or("");
  check(good.size() > 64 && sealed(good) == good, "sealed() does not follow order_cache.cpp");
}

void read_cached_order(std::string_view input) {
  const OrderCache cache(cache_root());
  static const bool once = (check_sealed(cache), true);
  static_cast<void>(once);
  Taker bytes(input);
  const bool seal = bytes.take<std::uint8_t>() % 4 != 0;
  const std::string entry(bytes.rest());
  scratch_file(cache.path("identity").substr(cache_root().size() - 5),
               seal ? sealed(entry) : entry);
  const std::optional<KeptOrder> order = cache.load("identity");
  if (!order) return;
  check(order->rows.inverse().inverse() == order->rows, "a cached order is no permutation");
  cache.store(*order, "identity");
  const auto again = cache.load("identity");
  check(again && again->rows == order->rows && again->cols == order->cols,
        "a cached order changes when it is stored again");
}

/// A CSR of up to 255 rows whose columns are in range, though not always ascending and distinct.
CsrMatrix small_csr(Taker& bytes) {
  CsrMatrix matrix;
  matrix.rows = bytes.take<std::uint8_t>();
  matrix.cols = 1 + bytes.take<std::uint16_t>() % 2048;
  const bool ascending = bytes.take<std::uint8_t>() % 4 != 0;
  std::vector<std::int64_t> offsets{0};
  std::vector<std::int32_t> cols;
  std::vector<float> values;
  for (std::int32_t row = 0; row < matrix.rows; ++row) {
    const int length = bytes.take<std::uint8_t>() % 40;
    std::int32_t col = -1;
    for (int i = 0; i < length && !bytes.empty(); ++i) {
      const int step = bytes.take<std::uint8_t>();
      col = ascending ? col + 1 + step % 32 : (step * 37) % matrix.cols;
      if (col >= matrix.cols) break;
      cols.push_back(col);
      values.push_back(step % 8 == 0 ? bytes.take<float>() : static_cast<float>(step - 100));
    }
    offsets.push_back(static_cast<std::int64_t>(cols.size()));
  }
  matrix.row_offsets = std::move(offsets);
  matrix.col_indices = std::move(cols);
  matrix.values = std::move(values);
  return matrix;
}

bool is_valid(const CsrMatrix& matrix) {
  try {
    validate(matrix);
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// One of the choices of every parameter that lists its choices.
Params::Given choices(const std::vector<ParamSpec>& specs, Taker& bytes) {
  Params::Given given;
  for (const ParamSpec& spec : specs)
    if (!spec.choices.empty())
      given[spec.name] = spec.choices[bytes.take<std::uint8_t>() % spec.choices.size()];
  return given;
}

void pack(const std::string& name, std::string_view input) {
  Taker bytes(input);
  const auto& registry = Registry<Format>::instance();
  const auto format = registry.make(name, choices(registry.find(name).params, bytes));
  const CsrMatrix matrix = small_csr(bytes);
  const bool valid = is_valid(matrix);
  std::unique_ptr<PackedMatrix> packed;
  try {
    packed = format->pack(matrix);
  } catch (const Unsupported&) {
    return;
  } catch (const Error& error) {
    check(!valid, name + " refuses a valid matrix: " + error.what());
    return;
  }
  check(valid, name + " packs columns that are not ascending and distinct");
  const CsrMatrix back = packed->unpack();
  check(back == matrix, name + " does not give its matrix back");
  stats(*packed);
  for (std::int32_t row = 0; row < matrix.rows; row += 17) packed->locate(row);
}

}  // namespace

std::map<std::string, Target> matrix_targets() {
  std::map<std::string, Target> found;
  for (const std::string& name : Registry<MatrixFile>::instance().names()) {
    const std::string suffix = Registry<MatrixFile>::instance().make(name)->suffixes().front();
    found["read." + name] = [suffix](std::string_view input) { read_file(suffix, input); };
  }
  for (const std::string& name : Registry<Format>::instance().names())
    found["pack." + name] = [name](std::string_view input) { pack(name, input); };
  found["cache.matrix"] = read_cached_matrix;
  found["cache.order"] = read_cached_order;
  return found;
}

}  // namespace tessera::fuzz
