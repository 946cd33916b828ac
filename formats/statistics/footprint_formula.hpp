// The closed form of a packed form's bytes: its footprint from a few counts of A, without packing.
//
// A format that has one registers it beside its Format, in the same source file:
//
//   const Register<FootprintFormula> footprint{footprint_formula(
//       "csr32", [](const MatrixExtents& a) { return Footprint{4 * (a.rows + 1 + a.nnz), ...}; })};
//
// Explicit zeros of A count as nonzeros; the list of them that formats with padding keep
// (explicit_zeros.hpp) is not counted.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "formats/base/registry.hpp"

namespace tessera {

/// The counts of A that the closed forms are functions of.
struct MatrixExtents {
  std::int64_t rows = 0;
  std::int64_t nnz = 0;
  /// The number of `width`-column tiles of condensed columns: the sum over the row windows of
  /// `height` rows of ceil(active columns / width). `height` is 8, 16, 32, 64 or 128.
  std::function<std::int64_t(int height, int width)> tiles;

  std::int64_t windows(int height) const { return (rows + height - 1) / height; }
};

/// Bytes of a packed form.
struct Footprint {
  std::int64_t index_bytes = 0;
  std::int64_t value_bytes = 0;  // padding included
};

/// A closed form, registered under the name of its format, with a suffix where it is that of other
/// parameters than the defaults ("me_tcf_8x8").
struct FootprintFormula {
  static constexpr const char* kKind = "footprint formula";

  std::function<Footprint(const MatrixExtents&)> footprint;
};

/// The registry entry of a formula.
inline Entry<FootprintFormula> footprint_formula(
    std::string format, std::function<Footprint(const MatrixExtents&)> footprint) {
  return {.name = std::move(format),
          .summary = "bytes without packing",
          .make = [footprint = std::move(footprint)](const Params&) {
            return std::make_unique<FootprintFormula>(FootprintFormula{footprint});
          }};
}

}  // namespace tessera
