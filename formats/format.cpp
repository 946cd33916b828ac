#include "formats/format.hpp"

namespace tessera {

FormatStats stats(const PackedMatrix& packed) {
  FormatStats result;
  for (const ArrayInfo& array : packed.arrays()) {
    result.bytes += array.bytes;
    if (!array.holds_values) result.index_bytes += array.bytes;
  }
  result.tile = packed.tiles();
  const auto nnz = static_cast<double>(packed.nnz());
  if (result.tile.tiles > 0) {
    result.mean_nnz_per_tile = nnz / static_cast<double>(result.tile.tiles);
    result.tile_density = result.mean_nnz_per_tile / (result.tile.rows * result.tile.cols);
    if (nnz > 0) result.padding_ratio = (static_cast<double>(result.tile.slots) - nnz) / nnz;
  }
  return result;
}

}  // namespace tessera
