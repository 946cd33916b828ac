#include "formats/statistics/predicted_footprints.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kWord = 4;  // bytes of an index, a 32-bit offset or a value

std::int64_t windows(std::int64_t rows, std::int64_t height) {
  return (rows + height - 1) / height;
}

std::int64_t me_tcf_index(const PackedExtents& e, std::int64_t height, std::int64_t tc_blocks) {
  const std::int64_t offsets = windows(e.rows, height) + 1 + tc_blocks + 1;
  return kWord * (offsets + 8 * tc_blocks) + e.nnz;
}

}  // namespace

std::vector<PredictedFootprint> predicted_footprints(const PackedExtents& e) {
  const std::int64_t values = kWord * e.nnz;
  const std::int64_t vector_values = kWord * 8 * e.vectors_8;
  const std::int64_t padded = kSrBcrsStride * e.strides_8x16;
  const std::int64_t bit_tcf = kWord * (windows(e.rows, 8) + 11 * e.tc_blocks_8 + 2);
  const auto with = [](const char* format, std::int64_t index, std::int64_t of_values) {
    return PredictedFootprint{format, index, index + of_values};
  };
  return {
      with("csr", 8 * (e.rows + 1) + kWord * e.nnz, values),
      with("csr32", kWord * (e.rows + 1 + e.nnz), values),
      with("tcf", kWord * (e.rows + 1 + 3 * e.nnz + windows(e.rows, 16)), values),
      with("me_tcf", me_tcf_index(e, 16, e.tc_blocks_16), values),
      with("me_tcf_8x8", me_tcf_index(e, 8, e.tc_blocks_8), values),
      with("bit_tcf", bit_tcf, values),
      with("me_bcrs", kWord * (windows(e.rows, 8) + 1 + e.vectors_8), vector_values),
      with("sr_bcrs", kWord * (2 * windows(e.rows, 8) + padded), kWord * 8 * padded),
  };
}

}  // namespace tessera
