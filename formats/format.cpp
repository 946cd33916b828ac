#include "formats/format.hpp"

namespace tessera {

std::string locate_in_tiles(std::int32_t row, const WindowTiles& tiles,
                            const std::function<bool(std::int64_t tile)>& holds_row) {
  std::int64_t first = tiles.begin;  // the tile with which the row's sum begins
  while (first < tiles.end && !holds_row(first)) ++first;
  const std::string sum =
      first == tiles.end
          ? "none with a nonzero of the row"
          : fmt::format("first nonzero of the row in {} {}, MMA step {} of the window", tiles.tile,
                        first, first - tiles.begin);
  return fmt::format("row window {} (row {} of it), {}s {} to {}, {}", row / tiles.height,
                     row % tiles.height, tiles.tile, tiles.begin, tiles.end, sum);
}

void PackLimits::require_offset(const char* format, const char* counted, std::int64_t count) const {
  require<Unsupported>(count <= offset, "{} counts {} in 32 bits: {} of them do not fit", format,
                       counted, count);
}

void PackLimits::require_bytes(const char* format, double needed) const {
  require<Unsupported>(needed <= static_cast<double>(bytes),
                       "{} would take {:.3g} bytes with its padding, more than {:.3g}", format,
                       needed, static_cast<double>(bytes));
}

std::unique_ptr<PackedMatrix> Format::pack(const CsrMatrix& matrix,
                                           const PackLimits& limits) const {
  validate(matrix);
  return build(matrix, limits);
}

FormatStats stats(const PackedMatrix& packed) {
  FormatStats result;
  for (const ArrayInfo& array : packed.arrays()) {
    result.bytes += array.bytes;
    result.index_bytes += array.bytes - array.value_bytes;
  }
  result.tile = packed.tiles();
  const auto nnz = static_cast<double>(packed.nnz());
  if (result.tile.tiles > 0) {
    result.mean_nnz_per_tile = nnz / static_cast<double>(result.tile.tiles);
    result.tile_density = result.mean_nnz_per_tile / result.tile.rows / result.tile.cols;
    if (nnz > 0) result.padding_ratio = (static_cast<double>(result.tile.slots) - nnz) / nnz;
  }
  return result;
}

}  // namespace tessera
