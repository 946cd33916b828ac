// A with more than 2^31 nonzeros, and with more than 2^32, in a few megabytes: its arrays are many
// mappings of the same memory, one after the other, and the last row has memory of its own.
#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <memory>

#include "formats/base/check.hpp"
#include "formats/base/random.hpp"
#include "formats/base/registry.hpp"
#include "formats/csr.hpp"
#include "formats/csr32.hpp"
#include "kernels/spgemm_kernel.hpp"
#include "kernels/spmm_kernel.hpp"
#include "oracle/spmm_oracle.hpp"
#include "reorder/reordering.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kRowLength = 1 << 19;  // whole pages of both arrays
constexpr std::int32_t kCols = 1 << 20;
constexpr std::int32_t kRowsBeyond31 = 4097, kRowsBeyond32 = 8193;

/// Addresses that are unmapped at the end.
class Reserved {
 public:
  explicit Reserved(std::size_t bytes)
      : bytes_(bytes),
        start_(
            mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    REQUIRE(start_ != MAP_FAILED);
  }
  ~Reserved() { munmap(start_, bytes_); }
  Reserved(const Reserved&) = delete;
  Reserved& operator=(const Reserved&) = delete;

  char* start() const { return static_cast<char*>(start_); }

 private:
  std::size_t bytes_;
  void* start_;
};

/// `rows` times a row's elements, the last time others.
template <class T>
Array<T> repeated(const std::vector<T>& row, const std::vector<T>& last, std::int64_t rows) {
  const std::size_t bytes = row.size() * sizeof(T);
  const int file = memfd_create("rows", 0);
  REQUIRE(file >= 0);
  REQUIRE(write(file, row.data(), bytes) == static_cast<ssize_t>(bytes));
  REQUIRE(write(file, last.data(), bytes) == static_cast<ssize_t>(bytes));
  const auto memory = std::make_shared<Reserved>(bytes * static_cast<std::size_t>(rows));
  for (std::int64_t i = 0; i < rows; ++i) {
    char* place = memory->start() + i * static_cast<std::int64_t>(bytes);
    const off_t from = i + 1 < rows ? 0 : static_cast<off_t>(bytes);
    REQUIRE(mmap(place, bytes, PROT_READ, MAP_SHARED | MAP_FIXED, file, from) == place);
  }
  close(file);
  const std::size_t size = row.size() * static_cast<std::size_t>(rows);
  return {std::span(reinterpret_cast<const T*>(memory->start()), size), memory};
}

/// One of every two neighbouring columns, and values of both signs.
struct Row {
  explicit Row(std::uint64_t seed) {
    for (std::int64_t k = 0; k < kRowLength; ++k) {
      cols.push_back(static_cast<std::int32_t>(2 * k + random_bits(seed, k) % 2));
      values.push_back(random_signed(seed + 1, k));
    }
  }
  std::vector<std::int32_t> cols;
  std::vector<float> values;
};

CsrMatrix matrix_of(std::int32_t rows, const Row& row, const Row& last) {
  std::vector<std::int64_t> offsets;
  for (std::int64_t i = 0; i <= rows; ++i) offsets.push_back(i * kRowLength);
  return {rows, kCols, std::move(offsets), repeated(row.cols, last.cols, rows),
          repeated(row.values, last.values, rows)};
}

TEST_CASE("a matrix of more than 2^31 nonzeros is validated to the last") {
  Row wrong(2);
  wrong.cols.back() = kCols;

  CHECK_THROWS_WITH_AS(validate(matrix_of(kRowsBeyond31, Row(1), wrong)),
                       "row 4096 holds column 1048576, outside [0, 1048576)", Error);
}

TEST_CASE(
    "a product of more than 2^31 nonzeros is emulated, and is the oracle's in the last rows") {
  const CsrMatrix a = matrix_of(kRowsBeyond31, Row(3), Row(5));
  const DenseMatrix b = random_dense(kCols, 1, 7);
  const CsrPacked packed(a);
  const auto kernel = Registry<SpmmKernel>::instance().make("csr_spmm");

  const DenseMatrix c = kernel->emulate(packed, b, find_generation("hopper"));
  const TrueRows truth = spmm_fp64(a, b, 4095, 4097);

  CHECK(packed.nnz() == 2'148'007'936);
  CHECK(std::abs(truth.product[0] - truth.product[1]) > 10);
  for (const std::int64_t row : {4095, 4096})
    CHECK(std::abs(c.at(row, 0) - truth.product[row - 4095]) <
          0x1p-16 * truth.magnitude[row - 4095]);
  for (std::int64_t row = 0; row < 4095; ++row) CHECK(c.at(row, 0) == c.at(4095, 0));
}

TEST_CASE("offsets of 32 bits hold more than 2^31 nonzeros without a sign") {
  const CsrMatrix a = matrix_of(kRowsBeyond31, Row(8), Row(9));

  const auto packed = Registry<Format>::instance().make("csr32")->pack(a);

  CHECK(packed_as<Csr32>(*packed).row_offsets.back() == 2'148'007'936u);
  CHECK(stats(*packed).bytes == 8 * a.nnz() + 4 * (kRowsBeyond31 + 1));
  const CsrMatrix unpacked = packed->unpack();
  CHECK(unpacked.nnz() == a.nnz());
  CHECK(unpacked.row_cols(4096).data() == a.row_cols(4096).data());
}

/// What `work` is refused with.
template <class Work>
std::string refusal(Work work) {
  try {
    work();
  } catch (const Unsupported& refused) {
    return refused.what();
  }
  return "";
}

TEST_CASE("what counts nonzeros in 31 or 32 bits refuses more, before it reads any") {
  const Row row(10);
  const CsrMatrix beyond_31 = matrix_of(kRowsBeyond31, row, row);
  const CsrMatrix beyond_32 = matrix_of(kRowsBeyond32, row, row);
  const CsrPacked packed(beyond_32);
  const CsrMatrix b{kCols, 8, std::vector<std::int64_t>(kCols + 1, 0), {}, {}};
  for (const std::string name : {"rows_spmm", "rode", "sputnik", "gespmm", "row_split", "hp_spmm",
                                 "merge_spmm", "dgsparse"}) {
    CAPTURE(name);
    const auto kernel = Registry<SpmmKernel>::instance().make(name);
    const std::string why = refusal([&] { kernel->work(packed, 1); });
    CHECK(why.find("at most") != std::string::npos);
    CHECK(why.find("not 4295491584") != std::string::npos);
  }
  const auto counts_in_32_bits = [](const std::string& why) {
    return why.find("counts nonzeros in 32 bits, and A has 2148007936") != std::string::npos;
  };
  const auto rows = Registry<SpgemmKernel>::instance().make("row_spgemm");
  CHECK(counts_in_32_bits(refusal([&] { rows->work(beyond_31, b); })));
  for (const char* name : {"tile_spgemm", "tsparse"}) {
    const auto tiles = Registry<SpgemmKernel>::instance().make(name);
    CHECK(counts_in_32_bits(
        refusal([&] { tiles->emulate(beyond_31, b, find_generation("hopper")); })));
  }
  const auto matched = Registry<Reordering>::instance().make("matched");
  CHECK(refusal([&] { matched->order(beyond_31); }).find("2147483647 nonzeros") !=
        std::string::npos);
}

}  // namespace
}  // namespace tessera
