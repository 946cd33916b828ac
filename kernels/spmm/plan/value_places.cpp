// A format copies the bits of values and never looks at them (formats/format.hpp), so the pattern
// is packed with values whose bits are the indices.
#include "kernels/spmm/plan/value_places.hpp"

#include <bit>
#include <cstring>

namespace tessera {
namespace {

/// The bits of the first NaN: a copy may change those of a signalling one.
constexpr std::int64_t kFirstNan = 0x7f800001;

const ArrayInfo& array_of_values(const std::vector<ArrayInfo>& arrays) {
  const ArrayInfo* found = nullptr;
  for (const ArrayInfo& array : arrays) {
    if (array.value_bytes == 0) continue;
    require<Unsupported>(found == nullptr, "the values of A are in the arrays {} and {}",
                         found == nullptr ? "" : found->name, array.name);
    require<Unsupported>(
        array.value_bytes == array.bytes &&
            array.bytes == array.elements * static_cast<std::int64_t>(sizeof(float)),
        "array {} has more than the values of A", array.name);
    found = &array;
  }
  require<Unsupported>(found != nullptr, "the packed matrix has no array of values");
  return *found;
}

}  // namespace

std::vector<std::uint32_t> value_places(const CsrMatrix& a, const Permutation& rows,
                                        const Format& format) {
  require<Unsupported>(a.nnz() + 1 < kFirstNan, "the places of {} values are not counted", a.nnz());
  if (a.nnz() == 0) return {};
  CsrMatrix numbered = a;
  std::vector<float> numbers(static_cast<std::size_t>(a.nnz()));
  for (std::uint32_t k = 0; k < numbers.size(); ++k) numbers[k] = std::bit_cast<float>(k + 1);
  numbered.values = std::move(numbers);
  const auto packed = format.pack(rows.size() == 0 ? numbered : permute_rows(numbered, rows));
  const std::vector<ArrayInfo> arrays = packed->arrays();
  const ArrayInfo& values = array_of_values(arrays);
  std::vector<std::uint32_t> places(static_cast<std::size_t>(values.elements));
  std::memcpy(places.data(), values.data, static_cast<std::size_t>(values.bytes));
  return places;
}

}  // namespace tessera
