// The promises of every registered format, at several of its parameters: exact both ways, honest
// about its size, the same bytes at any number of threads, and a reason where it refuses.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <regex>
#include <set>
#include <span>

#include "formats/base/registry.hpp"
#include "formats/format.hpp"
#include "formats/io/source.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

struct Variant {
  std::string name;    // "bcsr", "bcsr(block_rows=3)"
  std::string format;  // "bcsr"
  std::unique_ptr<Format> packer;
};

/// Every format with its defaults and, one at a time, with other values of its parameters; values
/// that the format does not take are left out.
std::vector<Variant> variants() {
  std::vector<Variant> all;
  for (const auto& [name, entry] : Registry<Format>::instance().entries()) {
    const auto add = [&, &format = name](const std::string& text, const Params::Given& given) {
      all.push_back({text, format, Registry<Format>::instance().make(format, given)});
    };
    add(name, {});
    for (const ParamSpec& param : entry.params) {
      if (param.name == "growth") continue;  // a limit, by which sparse matrices are refused
      std::vector<std::string> values = param.choices;
      if (std::holds_alternative<std::int64_t>(param.fallback))
        values = {"1", "2", "3", "4", "7", "8", "16", "32"};
      if (std::holds_alternative<bool>(param.fallback)) values = {"false", "true"};
      for (const std::string& value : values) {
        try {
          add(fmt::format("{}({}={})", name, param.name, value), {{param.name, value}});
        } catch (const Error&) {  // out of its range
        }
      }
    }
  }
  return all;
}

CsrMatrix generated(const char* spec) { return load_matrix(spec, false).matrix; }

/// The matrix with every third value a zero, of either sign.
CsrMatrix with_zeros(const CsrMatrix& matrix) {
  std::vector<float> values(matrix.values.begin(), matrix.values.end());
  for (std::size_t k = 0; k < values.size(); k += 3) values[k] = k % 2 != 0 ? 0.0f : -0.0f;
  return {matrix.rows, matrix.cols, matrix.row_offsets, matrix.col_indices, std::move(values)};
}

/// Dense where keep(row, col), at least outside a thin random rest.
template <class Keep>
CsrMatrix dense_where(std::int32_t rows, std::int32_t cols, Keep keep) {
  std::vector<std::int64_t> offsets{0};
  std::vector<std::int32_t> indices;
  std::vector<float> values;
  const CsrMatrix rest = random_sparse(rows, cols, 0.01, 11);
  const CsrMatrix full = random_sparse(rows, cols, 2, 12);
  const DenseMatrix thin = to_dense(rest);
  for (std::int32_t i = 0; i < rows; ++i) {
    for (std::int32_t j = 0; j < cols; ++j) {
      if (!keep(i, j) && thin.at(i, j) == 0) continue;
      indices.push_back(j);
      values.push_back(full.row_values(i)[j]);
    }
    offsets.push_back(std::ssize(indices));
  }
  return {rows, cols, std::move(offsets), std::move(indices), std::move(values)};
}

/// Matrices that are easy to get wrong.
std::vector<std::pair<std::string, CsrMatrix>> awkward_matrices() {
  const auto random = [](std::int32_t rows, std::int32_t cols, double density) {
    return random_sparse(rows, cols, density, 5);
  };
  const CsrMatrix blocks = random(203, 157, 0.07);
  std::vector<std::int64_t> gaps(204);  // rows 40 to 99 and the last three are empty
  std::vector<std::int32_t> cols;
  std::vector<float> values;
  for (std::int32_t row = 0; row < 203; ++row) {
    if (row < 40 || (row >= 100 && row < 200)) {
      cols.insert(cols.end(), blocks.row_cols(row).begin(), blocks.row_cols(row).end());
      values.insert(values.end(), blocks.row_values(row).begin(), blocks.row_values(row).end());
    }
    gaps[row + 1] = std::ssize(cols);
  }
  return {
      {"0 x 0", CsrMatrix{}},
      {"0 x 9", random(0, 9, 1)},
      {"9 x 0", random(9, 0, 1)},
      {"no nonzeros", random(40, 50, 0)},
      {"one cell", random(1, 1, 2)},
      {"one full tile", random(8, 8, 2)},
      {"edges in a tile", random(9, 17, 0.4)},
      {"1 x n", random(1, 3000, 0.3)},
      {"n x 1", random(3000, 1, 0.3)},
      {"sparse", random(64, 64, 0.02)},
      {"rows no multiple of 128", blocks},
      {"empty rows between", {203, 157, gaps, cols, values}},
      {"a dense row", dense_where(150, 170, [](int i, int) { return i == 77; })},
      {"a dense column", dense_where(150, 170, [](int, int j) { return j == 101; })},
      {"full", random(61, 47, 2)},
      {"explicit zeros", with_zeros(random(90, 70, 0.2))},
  };
}

TEST_CASE("every format gives back exactly the matrix it was packed from") {
  REQUIRE(Registry<Format>::instance().names().size() >= 2);
  const auto matrices = awkward_matrices();

  for (const Variant& variant : variants()) {
    CAPTURE(variant.name);
    for (const auto& [shape, matrix] : matrices) {
      CAPTURE(shape);

      const auto packed = variant.packer->pack(matrix);

      CHECK(packed->rows() == matrix.rows);
      CHECK(packed->cols() == matrix.cols);
      CHECK(packed->nnz() == matrix.nnz());
      CHECK(packed->unpack() == matrix);  // the bits of the values as well
    }
  }
}

TEST_CASE("every format gives back generated matrices of every structure") {
  for (const char* spec :
       {"rmat(scale=8, edge_factor=12)", "band(n=500, bandwidth=9, density=0.4)",
        "block_random(rows=301, block=12, per_block_row=3, fill=0.6)",
        "uniform(rows=410, cols=933, per_row=5)", "uniform(rows=933, cols=130, per_row=20)",
        "shuffle(of=poisson2d(nx=21), seed=3)", "mycielskian(k=9)"}) {
    CAPTURE(spec);
    const CsrMatrix matrix = generated(spec);
    REQUIRE(matrix.nnz() > 0);
    for (const Variant& variant : variants()) {
      CAPTURE(variant.name);
      CHECK(variant.packer->pack(matrix)->unpack() == matrix);
    }
  }
}

TEST_CASE("every format keeps explicit zeros, negative zeros, NaN and infinity") {
  const float infinity = std::numeric_limits<float>::infinity();
  const CsrMatrix a{3, 4, std::vector<std::int64_t>{0, 3, 3, 5},
                    std::vector<std::int32_t>{0, 1, 3, 1, 2},
                    std::vector<float>{0.0f, -0.0f, -infinity, std::nanf(""), 1e-45f}};
  for (const Variant& variant : variants()) {
    CAPTURE(variant.name);
    CHECK(variant.packer->pack(a)->unpack() == a);
  }
}

TEST_CASE("a format's footprint is the sum of its arrays, and its tiles hold all nonzeros") {
  const auto matrices = awkward_matrices();
  for (const Variant& variant : variants()) {
    CAPTURE(variant.name);
    for (const auto& [shape, matrix] : matrices) {
      CAPTURE(shape);
      const auto packed = variant.packer->pack(matrix);

      const FormatStats found = stats(*packed);

      std::int64_t bytes = 0, values = 0;
      std::set<std::string> names;
      for (const ArrayInfo& array : packed->arrays()) {
        bytes += array.bytes;
        values += array.value_bytes;
        CHECK(names.insert(array.name).second);
        CHECK((array.bytes == 0 || array.data != nullptr));
      }
      CHECK(found.bytes == bytes);
      CHECK(found.index_bytes == bytes - values);
      CHECK(values >= 4 * matrix.nnz());
      for (std::int32_t row = 0; row < matrix.rows; ++row) CHECK_FALSE(packed->locate(row).empty());
      if (found.tile.tiles > 0) {
        CHECK(found.tile.slots >= matrix.nnz());
        CHECK(found.mean_nnz_per_tile * static_cast<double>(found.tile.tiles) ==
              doctest::Approx(static_cast<double>(matrix.nnz())));
        CHECK(found.tile_density <= 1.0);
      }
    }
  }
}

bool same_arrays(const PackedMatrix& a, const PackedMatrix& b) {
  const auto left = a.arrays(), right = b.arrays();
  return std::ranges::equal(left, right, [](const ArrayInfo& x, const ArrayInfo& y) {
    return x.name == y.name && x.elements == y.elements && x.bytes == y.bytes &&
           (x.bytes == 0 || std::memcmp(x.data, y.data, x.bytes) == 0);
  });
}

TEST_CASE("every format packs to the same bytes at any number of threads") {
  // More rows than one piece of any parallel loop has, and explicit zeros.
  const CsrMatrix matrix = with_zeros(generated("band(n=40000, bandwidth=3, density=0.5)"));
  const CsrMatrix other = generated("band(n=40000, bandwidth=3, density=0.5, seed=2)");
  for (const Variant& variant : variants()) {
    CAPTURE(variant.name);
    const auto pack = [&](const CsrMatrix& a, int threads) {
      const ThreadCount count(threads);
      return variant.packer->pack(a);
    };
    const auto one = pack(matrix, 1), three = pack(matrix, 3);
    CHECK(same_arrays(*one, *three));
    CHECK_FALSE(same_arrays(*one, *pack(other, 1)));
    CHECK(one->locate(1234) == three->locate(1234));
    CHECK(three->unpack() == matrix);
  }
}

TEST_CASE("every format refuses columns out of order or twice, and says in which row") {
  const auto with_row_1 = [](std::vector<std::int32_t> cols) {
    cols.insert(cols.begin(), 4);  // row 0
    const std::vector<float> values(cols.size(), 0.5f);
    return CsrMatrix{3, 9, std::vector<std::int64_t>{0, 1, std::ssize(cols), std::ssize(cols)},
                     cols, values};
  };
  for (const Variant& variant : variants()) {
    CAPTURE(variant.name);
    CHECK_THROWS_WITH_AS(variant.packer->pack(with_row_1({2, 7, 5})),
                         "row 1: column 5 follows column 7; they must ascend", Error);
    CHECK_THROWS_WITH_AS(variant.packer->pack(with_row_1({3, 3})),
                         "row 1: column 3 follows column 3; they must ascend", Error);
    CHECK_THROWS_WITH_AS(variant.packer->pack(with_row_1({3, 9})),
                         "row 1 holds column 9, outside [0, 9)", Error);
    CHECK_NOTHROW(variant.packer->pack(with_row_1({2, 5, 7})));
  }
}

/// The format's message about these limits; empty when it packs within them.
std::string refusal(const Variant& variant, const CsrMatrix& matrix, const PackLimits& limits) {
  try {
    variant.packer->pack(matrix, limits);
    return "";
  } catch (const Unsupported& error) {
    return error.what();
  }
}

/// True when an array looks like 32-bit offsets: from 0 up to the number of nonzeros or of tiles.
bool has_32_bit_offsets(const PackedMatrix& packed) {
  return std::ranges::any_of(packed.arrays(), [&](const ArrayInfo& array) {
    if (array.value_bytes > 0 || array.elements < 2 || array.bytes != 4 * array.elements)
      return false;
    const std::span offsets(static_cast<const std::uint32_t*>(array.data), array.elements);
    return std::ranges::is_sorted(offsets) && offsets.front() == 0 &&
           (offsets.back() == packed.nnz() || offsets.back() == packed.tiles().tiles);
  });
}

TEST_CASE("a format that counts in 32 bits refuses one more than fits, and says what") {
  // The limit of 2^32 - 1 lowered: such matrices take tens of gigabytes.
  const CsrMatrix matrix = random_sparse(203, 157, 0.07, 5);
  std::set<std::string> counting;
  for (const Variant& variant : variants()) {
    CAPTURE(variant.name);
    std::int64_t fits = 0;
    std::string said;
    for (std::string why; !(why = refusal(variant, matrix, {.offset = fits})).empty();) {
      said = why;
      std::smatch found;
      const std::regex form(variant.format + " counts .+ in 32 bits: (\\d+) of them do not fit");
      REQUIRE_MESSAGE(std::regex_match(said, found, form), said);
      REQUIRE(std::stoll(found[1]) > fits);
      fits = std::stoll(found[1]);
    }
    if (said.empty()) {
      CHECK_FALSE(has_32_bit_offsets(*variant.packer->pack(matrix)));
      continue;
    }
    CHECK(refusal(variant, matrix, {.offset = fits - 1}) == said);
    if (has_32_bit_offsets(*variant.packer->pack(matrix))) counting.insert(variant.format);
  }
  for (const char* name : {"bcsr", "bit_tcf", "bitmap_tile", "csr32"})
    CHECK(counting.contains(name));
}

TEST_CASE("a format that pads refuses to grow beyond the limit of bytes") {
  const CsrMatrix matrix = random_sparse(203, 157, 0.07, 5);
  int padding = 0;
  for (const Variant& variant : variants()) {
    CAPTURE(variant.name);
    const FormatStats found = stats(*variant.packer->pack(matrix));
    CHECK(refusal(variant, matrix, {.bytes = found.bytes}).empty());
    if (found.padding_ratio == 0) continue;
    const std::string said = refusal(variant, matrix, {.bytes = 4 * matrix.nnz()});
    CHECK_MESSAGE(said.starts_with(variant.format + " would take "), said);
    CHECK(said.find("bytes with its padding, more than") != std::string::npos);
    ++padding;
  }
  CHECK(padding >= 2);
}

}  // namespace
}  // namespace tessera
