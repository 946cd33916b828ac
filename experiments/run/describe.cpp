#include "experiments/run/describe.hpp"

#include <algorithm>
#include <iterator>

#include "formats/statistics/named_statistics.hpp"

namespace tessera {

Json describe(const PackedMatrix& packed) {
  const FormatStats found = stats(packed);
  Json json{{"footprint_bytes", found.bytes},
            {"index_bytes", found.index_bytes},
            {"value_bytes", found.bytes - found.index_bytes}};
  if (found.tile.tiles > 0) {
    json["tiles"] = found.tile.tiles;
    json["mean_nnz_tc"] = found.mean_nnz_per_tile;
    json["tile_density"] = found.tile_density;
    json["padding_ratio"] = found.padding_ratio;
  }
  return json;
}

Json describe_arrays(const PackedMatrix& packed) {
  Json arrays = Json::object();
  for (const ArrayInfo& array : packed.arrays()) arrays[array.name] = array.bytes;
  return arrays;
}

Json describe(const CsrMatrix& matrix, bool square) {
  std::vector<NamedValue> figures = named_values(statistics(matrix));
  if (square && matrix.rows == matrix.cols)
    std::ranges::copy(named_values(count_square(matrix)), std::back_inserter(figures));
  Json json = Json::object();
  for (const NamedValue& figure : figures)
    std::visit([&](const auto& value) { json[figure.name] = value; }, figure.value);
  return json;
}

}  // namespace tessera
