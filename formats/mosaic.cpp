#include "formats/mosaic.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "formats/base/registry.hpp"
#include "formats/condense.hpp"

namespace tessera {
namespace {

constexpr int kBrickRows = Mosaic::kBrickRows;
constexpr int kStepCols = Mosaic::kStepCols;

std::int64_t round_up(std::int64_t count, std::int64_t multiple) {
  return (count + multiple - 1) / multiple * multiple;
}

/// The rows of the sampled groups as a matrix.
CsrMatrix sampled_rows(const CsrMatrix& matrix) {
  const std::int64_t stride = sample_stride(matrix.rows);
  std::vector<std::int64_t> offsets{0};
  std::vector<std::int32_t> cols;
  for (std::int64_t group = 0; group * 64 < matrix.rows; group += stride) {
    const std::int64_t first = group * 64, last = std::min<std::int64_t>(first + 64, matrix.rows);
    for (std::int64_t row = first; row < last; ++row) {
      const auto row_cols = matrix.row_cols(row);
      cols.insert(cols.end(), row_cols.begin(), row_cols.end());
      offsets.push_back(std::ssize(cols));
    }
  }
  const auto rows = static_cast<std::int32_t>(offsets.size() - 1);
  // Condensing reads no values.
  return {rows, matrix.cols, std::move(offsets), std::move(cols), {}};
}

HeightSample sample(const CsrMatrix& matrix) {
  const CsrMatrix rows = sampled_rows(matrix);
  HeightSample sample{rows.nnz(), {}};
  for (int i = 0; i < 4; ++i) sample.active_cols[i] = condense(rows, 8 << i).offsets.back();
  return sample;
}

/// The bitmaps of all bricks, empty ones included: that of brick r of step s has index
/// s * bricks per step + r.
std::vector<std::uint64_t> mark_bricks(const CsrMatrix& matrix, const Condensed& condensed,
                                       const Tiling& tiling, Mosaic& packed,
                                       const std::vector<std::int64_t>& shift) {
  const int per_step = packed.height / kBrickRows;
  std::vector<std::uint64_t> bitmaps(static_cast<std::size_t>(tiling.tiles() * per_step), 0);
  for_each_cell(matrix, condensed, tiling, kStepCols, [&](const TileCell& cell) {
    const int brick = cell.row / kBrickRows;
    const int bit = cell.row % kBrickRows * kStepCols + cell.col;
    bitmaps[cell.tile * per_step + brick] |= std::uint64_t{1} << bit;
    const std::int64_t window = cell.window;
    packed.values[cell.slot + shift[window]] = matrix.values[cell.nonzero];
  });
  return bitmaps;
}

class MosaicFormat final : public Format {
 public:
  explicit MosaicFormat(int height) : height_(height) {}

 private:
  std::unique_ptr<PackedMatrix> build(const CsrMatrix& matrix,
                                      const PackLimits& limits) const override;

  int height_;  // rows of a window; 0: chosen for the matrix
};

std::unique_ptr<PackedMatrix> MosaicFormat::build(const CsrMatrix& matrix,
                                                  const PackLimits& limits) const {
  auto packed = std::make_unique<Mosaic>(matrix.rows, matrix.cols, matrix.nnz());
  packed->height = height_ > 0 ? height_ : choose_height(sample(matrix));
  const std::int64_t windows = (std::int64_t{matrix.rows} + packed->height - 1) / packed->height;
  // Steps and bricks with their padding are at most as many.
  limits.require_offset(Mosaic::kFormat, "nonzeros with their padding", matrix.nnz() + 3 * windows);
  const Condensed condensed = condense(matrix, packed->height);
  const Tiling tiling = tile(matrix, condensed, kStepCols);

  // The padding of all values before a window.
  std::vector<std::int64_t> shift(static_cast<std::size_t>(windows));
  std::int64_t values = 0;
  for (std::int64_t w = 0; w < windows; ++w) {
    const std::int64_t first = matrix.row_offsets[w * packed->height];
    const std::int64_t last =
        matrix.row_offsets[std::min<std::int64_t>((w + 1) * packed->height, matrix.rows)];
    shift[w] = values - first;
    values += round_up(last - first, Mosaic::kValueAlign);
  }
  packed->values.assign(static_cast<std::size_t>(values), 0.0f);
  const auto all = mark_bricks(matrix, condensed, tiling, *packed, shift);

  const int per_step = packed->height / kBrickRows;
  packed->window_offset.assign(tiling.tile_offsets.begin(), tiling.tile_offsets.end());
  packed->step_cols = padded_columns(condensed, tiling, kStepCols);
  packed->steps.resize(static_cast<std::size_t>(tiling.tiles()));
  std::vector<std::int64_t> first_brick(static_cast<std::size_t>(windows) + 1, 0);
  parallel_for(windows, kWindowGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t w = begin; w < end; ++w) {
      const auto from = all.begin() + tiling.tile_offsets[w] * per_step;
      const auto to = all.begin() + tiling.tile_offsets[w + 1] * per_step;
      first_brick[w + 1] = round_up((to - from) - std::count(from, to, 0u), Mosaic::kBrickAlign);
    }
  });
  std::partial_sum(first_brick.begin(), first_brick.end(), first_brick.begin());
  limits.require_bytes(Mosaic::kFormat,
                       mosaic_bytes(windows, tiling.tiles(), first_brick.back(), values));
  packed->bitmaps.assign(static_cast<std::size_t>(first_brick.back()), 0);
  parallel_for(windows, kWindowGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t w = begin; w < end; ++w) {
      std::int64_t brick = first_brick[w];
      for (std::int64_t s = tiling.tile_offsets[w]; s < tiling.tile_offsets[w + 1]; ++s) {
        const std::int64_t first_value = tiling.nnz_offsets[s] + shift[w];
        Mosaic::Step step{
            static_cast<std::uint32_t>(brick), static_cast<std::uint32_t>(first_value), 0,
            static_cast<std::uint32_t>(tiling.nnz_offsets[s + 1] - tiling.nnz_offsets[s])};
        for (int r = 0; r < per_step; ++r) {
          const std::uint64_t bitmap = all[s * per_step + r];
          if (bitmap == 0) continue;
          packed->bitmaps[brick++] = bitmap;
          step.brick_mask |= 1u << r;
        }
        packed->steps[s] = step;
      }
    }
  });
  return packed;
}

const Register<Format> entry{{
    .name = Mosaic::kFormat,
    .summary = "8 x 8 bitmap bricks in windows of 16 rows, or of 8 to 64 (ours)",
    .params = {{"height",
                std::string("16"),
                "rows of a window; auto: by a model of the time (choose_height)",
                {"auto", "8", "16", "32", "64"}}},
    .make =
        [](const Params& params) {
          const std::string& height = params.text("height");
          return std::make_unique<MosaicFormat>(height == "auto" ? 0 : std::stoi(height));
        },
}};

/// Calls visit(row, column, value) for the nonzeros of a window in the order of `values`.
template <class Visit>
void for_each_nonzero(const Mosaic& packed, std::int64_t window, Visit visit) {
  for (std::int64_t s = packed.window_offset[window]; s < packed.window_offset[window + 1]; ++s) {
    const Mosaic::Step& step = packed.steps[s];
    std::int64_t brick = step.first_brick, value = step.first_value;
    for (std::uint32_t mask = step.brick_mask; mask != 0; mask &= mask - 1) {
      const std::int64_t row = window * packed.height + std::countr_zero(mask) * kBrickRows;
      for (std::uint64_t rest = packed.bitmaps[brick++]; rest != 0; rest &= rest - 1) {
        const int bit = std::countr_zero(rest);
        visit(row + bit / kStepCols, packed.step_cols[s * kStepCols + bit % kStepCols],
              packed.values[value++]);
      }
    }
  }
}

}  // namespace

int choose_height(const HeightSample& sample) {
  constexpr double kFetchPs = 57, kBrickPs = 65;
  int best = 8;
  double least = 0;
  for (int i = 0; i < 4; ++i) {
    const auto cols = static_cast<double>(sample.active_cols[i]);
    if (cols == 0) return 8;
    const double per_step = 1 << i;  // bricks
    const double nonzeros = kStepCols * static_cast<double>(sample.nonzeros) / cols;
    const double filled = per_step * (1 - std::pow(1 - 1 / per_step, nonzeros));
    const double time = kFetchPs * cols + kBrickPs * filled * cols / kStepCols;
    if (i > 0 && time >= least) continue;
    least = time;
    best = 8 << i;
  }
  return best;
}

std::unique_ptr<MeTcf> to_me_tcf(const Mosaic& a) {
  require(a.height <= 16,
          "TC blocks with a byte per nonzero have at most 16 rows, windows of mosaic have {}: set "
          "its height = 16",
          a.height);
  auto tiles = std::make_unique<MeTcf>(a.rows(), a.cols(), a.nnz());
  tiles->window_rows = a.height;
  tiles->row_window_offset = a.window_offset;
  tiles->sparse_a_to_b = a.step_cols;
  tiles->tc_offset.assign(1, 0);
  // Both formats order the nonzeros of a step by row, then by column.
  for (const Mosaic::Step& step : a.steps) {
    std::uint32_t brick = step.first_brick, value = step.first_value;
    for (std::uint32_t mask = step.brick_mask; mask != 0; mask &= mask - 1) {
      const int first_id = std::countr_zero(mask) * kBrickRows * kStepCols;
      for (std::uint64_t rest = a.bitmaps[brick++]; rest != 0; rest &= rest - 1) {
        tiles->tc_local_id.push_back(static_cast<std::uint8_t>(first_id + std::countr_zero(rest)));
        tiles->values.push_back(a.values[value++]);
      }
    }
    tiles->tc_offset.push_back(static_cast<std::uint32_t>(tiles->values.size()));
  }
  return tiles;
}

CsrMatrix Mosaic::unpack() const {
  std::vector<std::int64_t> offsets(static_cast<std::size_t>(rows()) + 1, 0);
  for (std::int64_t w = 0; w < num_windows(); ++w)
    for_each_nonzero(*this, w, [&](std::int64_t row, std::int32_t, float) { ++offsets[row + 1]; });
  std::partial_sum(offsets.begin(), offsets.end(), offsets.begin());

  // Steps follow ascending columns, so each row fills in ascending order.
  std::vector<std::int64_t> next(offsets.begin(), offsets.end() - 1);
  std::vector<std::int32_t> cols_of(static_cast<std::size_t>(nnz()));
  std::vector<float> values_of(static_cast<std::size_t>(nnz()));
  for (std::int64_t w = 0; w < num_windows(); ++w) {
    for_each_nonzero(*this, w, [&](std::int64_t row, std::int32_t col, float value) {
      cols_of[next[row]] = col;
      values_of[next[row]++] = value;
    });
  }
  return {rows(), cols(), std::move(offsets), std::move(cols_of), std::move(values_of)};
}

std::vector<ArrayInfo> Mosaic::arrays() const {
  return {array_info("window_offset", window_offset), array_info("step_cols", step_cols),
          array_info("steps", steps), array_info("bitmaps", bitmaps),
          array_info("values", values, true)};
}

TileInfo Mosaic::tiles() const {
  std::int64_t bricks = 0;
  for (const Step& step : steps) bricks += std::popcount(step.brick_mask);
  return {kBrickRows, kStepCols, bricks, static_cast<std::int64_t>(values.size())};
}

std::string Mosaic::locate(std::int32_t row) const {
  const int window = row / height, in_window = row % height;
  const std::uint32_t begin = window_offset[window], end = window_offset[window + 1];
  const int brick = in_window / kBrickRows;
  std::uint32_t first = begin;  // the step with the row's first brick
  while (first < end && (steps[first].brick_mask >> brick & 1) == 0) ++first;
  return fmt::format(
      "row window {} of {} rows (row {} of it), steps {} to {}, {}", window, height, in_window,
      begin, end,
      first == end ? "none with a brick of the row"
                   : fmt::format("first brick of the row in step {}, brick row {}", first, brick));
}

}  // namespace tessera
