// The places of A's values in packed matrices: through them, new values give the matrix that
// packing anew gives.
#include "kernels/spmm/plan/value_places.hpp"

#include <doctest/doctest.h>

#include <numeric>

#include "formats/base/registry.hpp"
#include "formats/io/source.hpp"
#include "tests/support.hpp"

using namespace tessera;

namespace {

Permutation reversed(std::int32_t size) {
  std::vector<std::int32_t> order(static_cast<std::size_t>(size));
  std::iota(order.rbegin(), order.rend(), 0);
  return Permutation(std::move(order));
}

/// The values of the packed matrix.
std::vector<float> packed_values(const PackedMatrix& packed) {
  for (const ArrayInfo& array : packed.arrays())
    if (array.value_bytes > 0) {
      const auto* values = static_cast<const float*>(array.data);
      return {values, values + array.elements};
    }
  return {};
}

}  // namespace

TEST_CASE("values that are moved to their places are those of the matrix packed anew") {
  const CsrMatrix a = load_matrix("rmat(scale=7, edge_factor=5)").matrix;
  CsrMatrix changed = a;
  changed.values = random_dense(1, a.nnz(), 11).values;
  const float* values = changed.values.data();
  for (const char* name : {"csr", "mosaic", "bcsr", "me_tcf"})
    for (const Permutation& rows : {Permutation(), reversed(a.rows)}) {
      CAPTURE(name);
      const auto format = Registry<Format>::instance().make(name);
      const auto places = value_places(a, rows, *format);
      std::vector<float> moved;
      for (const std::uint32_t place : places) moved.push_back(place == 0 ? 0 : values[place - 1]);
      const auto anew = format->pack(rows.size() == 0 ? changed : permute_rows(changed, rows));
      CHECK(moved == packed_values(*anew));
      CHECK(places !=
            value_places(a, rows.size() == 0 ? reversed(a.rows) : Permutation(), *format));
    }
}

TEST_CASE("a format whose array of values has other data has no places") {
  const CsrMatrix a = load_matrix("rmat(scale=5)").matrix;
  CHECK_THROWS_AS(value_places(a, {}, *Registry<Format>::instance().make("hrpb")), Unsupported);
  CsrMatrix none;
  none.rows = none.cols = 1;
  none.row_offsets = std::vector<std::int64_t>{0, 0};
  CHECK(value_places(none, {}, *Registry<Format>::instance().make("csr")).empty());
}
