// The host code that kernels over condensed row windows share, for any encoding of the nonzeros of
// a TC block: sizes of windows, the emulation of tasks, and the work that does not depend on the
// schedule. `Tiles` is BitTcf, MeTcf or TallTiles, or a format with the same arrays.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "formats/base/parallel.hpp"
#include "formats/bit_tcf.hpp"
#include "formats/me_tcf.hpp"
#include "formats/tall_tiles.hpp"
#include "kernels/spmm/row_windows/window_tasks.hpp"
#include "kernels/spmm_kernel.hpp"
#include "kernels/storage.hpp"
#include "kernels/tensor_core/precision.hpp"

namespace tessera::row_windows {

constexpr int window_rows(const BitTcf&) { return BitTcf::kTileRows; }
inline int window_rows(const MeTcf& a) { return a.window_rows; }
constexpr int window_rows(const TallTiles&) { return TallTiles::kWindowRows; }

/// The number of rows of C that a window has.
template <class Tiles>
std::int64_t rows_of_window(const Tiles& a, std::int64_t window) {
  return std::min<std::int64_t>(window_rows(a), a.rows() - window * window_rows(a));
}

/// The number of active columns of TC blocks [first, last): a row of B is read for each.
template <class Tiles>
std::int64_t count_active_cols(const Tiles& a, std::int64_t first, std::int64_t last) {
  return std::count_if(a.sparse_a_to_b.begin() + first * Tiles::kTileCols,
                       a.sparse_a_to_b.begin() + last * Tiles::kTileCols,
                       [](std::int32_t col) { return col != kNoColumn; });
}

/// Adds to the terms of every row of a split window the number of its parts. `terms` is [rows].
template <class Tiles>
void add_split_terms(const Tiles& a, const window_tasks::Tasks& tasks,
                     std::vector<std::int64_t>& terms) {
  for (const window_tasks::Split& split : tasks.splits) {
    const std::int64_t window = tasks.tasks[split.first_task].window;
    for (std::int64_t r = 0; r < rows_of_window(a, window); ++r)
      terms[static_cast<std::size_t>(window * window_rows(a) + r)] += split.parts;
  }
}

/// C [rows x n]: the sums of every task, those of a split window added in the order of its tasks:
/// first those of a team, then those of the teams.
/// `make_rows()` returns the emulation of one thread, whose run_row(r, first, last, c) computes row
/// r of a window from TC blocks [first, last) into a zeroed `c`.
template <class Tiles, class MakeRows>
DenseMatrix emulate_tasks(const Tiles& a, const window_tasks::Tasks& tasks, std::int64_t n,
                          MakeRows make_rows) {
  DenseMatrix c(a.rows(), n);
  parallel_for(std::ssize(tasks.tasks), 16, [&](std::int64_t begin, std::int64_t end) {
    auto rows = make_rows();
    std::vector<float> sums(static_cast<std::size_t>(n)), of_team(sums);
    const auto add = [](std::span<float> to, const std::vector<float>& from) {
      for (std::size_t j = 0; j < from.size(); ++j) to[j] = add_on_gpu(to[j], from[j]);
    };
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t window = tasks.tasks[i].window, parts = tasks.parts_from(i);
      for (int r = 0; parts > 0 && r < rows_of_window(a, window); ++r) {
        const std::span<float> row = c.row(window * window_rows(a) + r);
        const auto run = [&](std::int64_t part, std::span<float> to) {
          std::ranges::fill(to, 0.0f);
          rows.run_row(r, tasks.tasks[i + part].first, tasks.tasks[i + part].last, to);
        };
        for (std::int64_t first = 0; first < parts; first += tasks.team) {
          const std::span<float> to = first == 0 ? row : std::span<float>(of_team);
          run(first, to);
          for (std::int64_t p = first + 1; p < std::min(first + tasks.team, parts); ++p) {
            run(p, sums);
            add(to, sums);
          }
          if (first > 0) add(row, of_team);
        }
      }
    }
  });
  return c;
}

/// The work description without footprint, thread blocks and launches, of MMAs in TF32 or, with a B
/// of 16 bits, in its type.
template <class Tiles>
WorkDescription describe_tiles(const std::string& kernel, const Tiles& a, std::int64_t n,
                               const std::string& mma_shape, int flops_per_mma,
                               const Storage& storage = {}) {
  // BF16 is multiplied at the rate of FP16, which device descriptions have.
  WorkDescription work{.kernel = kernel,
                       .mma_type = storage.b == ElementType::kFp32 ? "tf32" : "fp16",
                       .mma_shape = mma_shape,
                       .flops_per_mma = flops_per_mma};
  const auto bytes = [&](ElementType type, std::int64_t rows) {
    return static_cast<std::int64_t>(bytes_of(type)) * n * rows;
  };
  work.b_rows_bytes = bytes(storage.b, count_distinct(a.sparse_a_to_b, a.cols()));
  work.c_bytes = bytes(storage.c, a.rows());
  work.useful_flops = 2 * a.nnz() * n;
  return work;
}

}  // namespace tessera::row_windows
