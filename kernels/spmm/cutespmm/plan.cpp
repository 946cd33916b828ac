// The part of cutespmm that its host half and its device half share: options, the shape of a thread
// block, and the list of tasks.

#include <algorithm>
#include <bit>

#include "formats/base/check.hpp"
#include "formats/base/wave_balance.hpp"
#include "kernels/spmm/cutespmm/cutespmm.hpp"

namespace tessera::cutespmm {
namespace {

std::int64_t num_panels(const Hrpb& a) { return std::max<std::int64_t>(a.num_row_panels(), 0); }

/// The parts (virtual row panels) of each row panel, by equations 6 and 7, or such that none has
/// more blocks than the mean row panel. [row panels]
std::vector<std::int64_t> parts_of_panels(const Hrpb& a, std::int64_t n,
                                          const CuteSpmmOptions& options) {
  const std::int64_t panels = num_panels(a);
  std::vector<std::int64_t> parts(static_cast<std::size_t>(panels), 1);
  if (panels == 0) return parts;
  if (options.balance == Balance::kAverage) return split_by_waves(a, 1);
  if (options.balance != Balance::kWaves) return parts;
  const Geometry shape = geometry(a, n, options);
  const std::int64_t thread_blocks = (panels + shape.teams - 1) / shape.teams * shape.num_chunks(n);
  const std::int64_t resident =
      options.resident > 0
          ? options.resident
          : std::max<std::int64_t>(
                1, resident_thread_blocks(options.gpu, shape.threads(),
                                          registers_per_thread(shape, options, a.tile_rows),
                                          shape.shared_bytes()));
  return split_by_waves(a, cutespmm::num_waves(thread_blocks, resident));
}

}  // namespace

CuteSpmmOptions read_options(const Params& params) {
  const std::string& balance = params.text("balance");
  return {.depth = params.text("mma") == "m16n8k4" ? 4 : 8,
          .coarsen = static_cast<int>(params.integer("coarsen")),
          .stages = static_cast<int>(params.integer("stages")),
          .panels = static_cast<int>(params.integer("panels")),
          .precision = tf32_precision(params.text("precision")),
          .balance = balance == "none"      ? Balance::kNone
                     : balance == "waves"   ? Balance::kWaves
                     : balance == "average" ? Balance::kAverage
                                            : Balance::kSorted,
          .resident = params.integer("resident")};
}

std::size_t mode_of(const CuteSpmmOptions& options, int tile_rows) {
  return find_mode(options.depth, tile_rows / Hrpb::kBrickRows, options.precision);
}

void check_blocks(const Hrpb& a, const CuteSpmmOptions& options) {
  require<Unsupported>(
      a.tile_rows <= 2 * Hrpb::kBrickRows && a.tile_cols <= kMaxTileCols,
      "cutespmm takes blocks of 16 or 32 rows and at most {} columns, not of {} x {}", kMaxTileCols,
      a.tile_rows, a.tile_cols);
  require<Unsupported>(mode_of(options, a.tile_rows) < kModes.size(),
                       "cutespmm has no instance of m16n8k{} for {}blocks of {} rows: it splits "
                       "operands for m16n8k8 "
                       "and blocks of 16 rows alone",
                       options.depth,
                       options.precision == Tf32Precision::kSplit ? "split operands and " : "",
                       a.tile_rows);
}

Geometry geometry(const Hrpb& a, std::int64_t n, const CuteSpmmOptions& options) {
  check_blocks(a, options);
  const std::int64_t wide = std::clamp<std::int64_t>(n, kChunkCols, kTeamCols);
  const int team_cols = static_cast<int>(std::bit_ceil(static_cast<std::uint64_t>(wide)));
  const std::int64_t teams = num_panels(a) * ((n + team_cols - 1) / team_cols);
  const int warp_cols = options.coarsen == 0 ? warp_cols_for(teams, team_cols, options.gpu.sms)
                                             : std::min(options.coarsen, team_cols);
  std::uint32_t largest = 0;
  for (std::int64_t b = 0; b < a.num_blocks(); ++b)
    largest = std::max(largest, a.size_ptr[b + 1] - a.size_ptr[b]);
  return {.warp_cols = warp_cols,
          .warps = team_cols / warp_cols,
          .teams = options.panels,
          .stages = options.stages,
          .stage_rows = (a.tile_cols + options.depth - 1) / options.depth * options.depth,
          .block_bytes = static_cast<int>(largest)};
}

int registers_per_thread(const Geometry& geometry, const CuteSpmmOptions& options, int tile_rows) {
  return kTeamShapes[find_team_shape(geometry.warp_cols, geometry.warps)]
      .registers[mode_of(options, tile_rows)];
}

std::vector<std::int64_t> split_by_waves(const Hrpb& a, std::int64_t waves) {
  std::vector<std::int64_t> blocks(static_cast<std::size_t>(num_panels(a)));
  for (std::size_t p = 0; p < blocks.size(); ++p)
    blocks[p] = std::int64_t{a.blocked_row_ptr[p + 1]} - a.blocked_row_ptr[p];
  std::vector<std::int64_t> parts;
  for (const cutespmm::Partition& partition : cutespmm::partitions(blocks, waves))
    parts.push_back(partition.parts);
  return parts;
}

std::vector<Task> plan_tasks(const Hrpb& a, std::int64_t n, const CuteSpmmOptions& options) {
  const std::vector<std::int64_t> parts = parts_of_panels(a, n, options);
  std::vector<Task> tasks;
  for (std::size_t panel = 0; panel < parts.size(); ++panel) {
    const std::int64_t first = a.blocked_row_ptr[panel];
    const std::int64_t blocks = a.blocked_row_ptr[panel + 1] - first;
    const auto bound = [&](std::int64_t part) {
      return static_cast<std::uint32_t>(first + blocks * part / parts[panel]);
    };
    for (std::int64_t part = 0; part < parts[panel]; ++part)
      tasks.push_back({static_cast<std::uint32_t>(panel), bound(part), bound(part + 1),
                       parts[panel] > 1 ? 1u : 0u});
  }
  if (options.balance == Balance::kSorted)
    std::ranges::stable_sort(tasks, std::greater{},
                             [](const Task& task) { return task.last - task.first; });
  return tasks;
}

std::vector<std::uint32_t> split_panels(const std::vector<Task>& tasks) {
  std::vector<std::uint32_t> panels;
  for (const Task& task : tasks)
    if (task.is_part != 0 && (panels.empty() || panels.back() != task.panel))
      panels.push_back(task.panel);
  return panels;
}

}  // namespace tessera::cutespmm
