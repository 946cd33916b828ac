// The results of the papers' analytic models for one matrix, as named figures grouped by paper.
// `tessera analyse` prints them, and the record of a predicted product keeps them for tables and
// figures.
//
// The counting of a matrix and the models are apart, since the counts serve every N and device.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "experiments/records/record.hpp"
#include "formats/base/matrix.hpp"
#include "formats/statistics/named_statistics.hpp"
#include "formats/statistics/square.hpp"
#include "formats/statistics/statistics.hpp"
#include "model/device.hpp"

namespace tessera {

/// The counts of a matrix that the models need.
struct ModelCounts {
  MatrixStatistics statistics = {};
  std::vector<std::int64_t> row_lengths = {};     // [rows]
  std::vector<std::int64_t> active_cols_8 = {};   // [8-row windows]
  std::vector<std::int64_t> active_cols_16 = {};  // [16-row windows]
  std::int64_t used_cols = 0;                     // that hold a nonzero
  std::optional<SquareCount> square = {};         // of A A
};

/// Takes a few passes over the nonzeros; with `square`, where A A exists, also the time of
/// count_square().
ModelCounts count_for_models(const CsrMatrix& matrix, bool square);

/// Every figure, group by group, for B of `n` columns. One that does not apply (no nonzero, A not
/// square or A A not counted, a device without the type of number) is NaN. Throws an Error unless n
/// is positive.
std::vector<NamedValue> analyse(const ModelCounts& counts, std::int64_t n, const Device& device);

/// The figures by name, as a record keeps them, without those that do not apply.
Figures applicable(const std::vector<NamedValue>& figures);

}  // namespace tessera
