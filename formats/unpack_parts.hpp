// Unpacking a matrix in parts of consecutive rows: a large one and what it was packed as are never
// whole in memory at once.
//
// A format that is packed in parts (build_in_parts.hpp) registers this beside its Format, in the
// same source file:
//
//   const Register<PartsUnpacker> parts{parts_unpacker<Mosaic>(kWindowRows, first_nonzero,
//                                                              nonzeros_of)};
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>

#include "formats/base/registry.hpp"
#include "formats/format.hpp"
#include "formats/unpack.hpp"

namespace tessera {

/// Takes rows of a matrix as a matrix.
using VisitRows = std::function<void(const CsrMatrix& rows)>;

/// Visits the rows of a packed matrix in parts of about `nonzeros`, in their order: all at once
/// where its format registers no parts.
void unpack_parts(const PackedMatrix& packed, std::int64_t nonzeros, const VisitRows& visit);

struct PartsUnpacker {
  static constexpr const char* kKind = "unpacker of parts";

  /// False, without a visit, where the packed matrix is of another format.
  std::function<bool(const PackedMatrix&, std::int64_t nonzeros, const VisitRows&)> unpack;
};

/// The registry entry of a format with windows of `height` rows: first_nonzero(packed, window) is
/// the number of nonzeros before a window, nonzeros_of(packed) visits those of one (unpack.hpp).
template <class Packed, class FirstNonzero, class NonzerosOf>
Entry<PartsUnpacker> parts_unpacker(int height, FirstNonzero first_nonzero,
                                    NonzerosOf nonzeros_of) {
  const auto unpack = [=](const PackedMatrix& of_any_format, std::int64_t nonzeros,
                          const VisitRows& visit) {
    const auto* packed = dynamic_cast<const Packed*>(&of_any_format);
    if (packed == nullptr) return false;
    const std::int64_t windows = (std::int64_t{packed->rows()} + height - 1) / height;
    std::int64_t begin = 0;
    do {
      std::int64_t end = std::min(begin + 1, windows);
      while (end < windows &&
             first_nonzero(*packed, end) - first_nonzero(*packed, begin) < nonzeros)
        ++end;
      const std::int64_t row = begin * height;
      const auto rows =
          static_cast<std::int32_t>(std::min<std::int64_t>(end * height, packed->rows()) - row);
      visit(unpack_rows({begin, end, row, rows, packed->cols()}, nonzeros_of(*packed)));
      begin = end;
    } while (begin < windows);
    return true;
  };
  return {.name = Packed::kFormat, .summary = "rows in parts", .make = [unpack](const Params&) {
            return std::make_unique<PartsUnpacker>(PartsUnpacker{unpack});
          }};
}

}  // namespace tessera
