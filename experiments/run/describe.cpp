#include "experiments/run/describe.hpp"

#include "formats/statistics/named_statistics.hpp"

namespace tessera {

void add_packed(const PackedMatrix& packed, PreparationPart& prep) {
  const FormatStats found = stats(packed);
  prep.footprint_bytes = found.bytes;
  prep.index_bytes = found.index_bytes;
  prep.value_bytes = found.bytes - found.index_bytes;
  if (found.tile.tiles > 0) {
    prep.tiles = found.tile.tiles;
    prep.mean_nnz_tc = found.mean_nnz_per_tile;
    prep.tile_density = found.tile_density;
    prep.padding_ratio = found.padding_ratio;
  }
}

std::map<std::string, std::int64_t> array_bytes(const PackedMatrix& packed) {
  std::map<std::string, std::int64_t> bytes;
  for (const ArrayInfo& array : packed.arrays()) bytes[array.name] = array.bytes;
  return bytes;
}

Json describe_packed(const PackedMatrix& packed) {
  const FormatStats sizes = stats(packed);
  Json arrays = Json::array();
  for (const ArrayInfo& array : packed.arrays())
    arrays.push_back({{"name", array.name}, {"elements", array.elements}, {"bytes", array.bytes}});
  return {{"footprint_bytes", sizes.bytes},
          {"index_bytes", sizes.index_bytes},
          {"tiles", sizes.tile.tiles},
          {"mean_nnz_tc", sizes.mean_nnz_per_tile},
          {"tile_density", sizes.tile_density},
          {"padding_ratio", sizes.padding_ratio},
          {"arrays", arrays}};
}

Figures describe(const CsrMatrix& matrix, bool square) {
  Figures figures;
  const auto add = [&](const std::vector<NamedValue>& values) {
    for (const NamedValue& figure : values) figures[figure.name] = figure.value;
  };
  add(named_values(statistics(matrix)));
  if (square && matrix.rows == matrix.cols) add(named_values(count_square(matrix)));
  return figures;
}

}  // namespace tessera
