#include "kernels/window_tasks.hpp"

#include "formats/base/check.hpp"
#include "formats/base/window_balance.hpp"

namespace tessera::window_tasks {

double imbalance(const BitTcf& a) {
  std::vector<std::int64_t> blocks(static_cast<std::size_t>(a.num_row_windows()));
  for (std::size_t w = 0; w < blocks.size(); ++w)
    blocks[w] = a.row_window_offset[w + 1] - a.row_window_offset[w];
  return acc_balance::ibd(blocks);
}

Tasks cut(const BitTcf& a, std::int64_t max_blocks) {
  Tasks result;
  result.tasks.reserve(static_cast<std::size_t>(a.num_row_windows()));
  for (std::int64_t w = 0; w < a.num_row_windows(); ++w) {
    const std::int64_t first = a.row_window_offset[w], blocks = a.row_window_offset[w + 1] - first;
    const std::int64_t parts =
        max_blocks == 0 || blocks <= max_blocks ? 1 : (blocks + max_blocks - 1) / max_blocks;
    if (parts > 1) {
      result.splits.push_back({static_cast<std::uint32_t>(result.tasks.size()),
                               static_cast<std::uint32_t>(parts),
                               static_cast<std::uint32_t>(result.slots)});
      result.slots += parts;
    }
    for (std::int64_t p = 0; p < parts; ++p)
      result.tasks.push_back({static_cast<std::uint32_t>(w),
                              static_cast<std::uint32_t>(first + blocks * p / parts),
                              static_cast<std::uint32_t>(first + blocks * (p + 1) / parts),
                              parts > 1 ? static_cast<std::uint32_t>(result.splits.size()) : 0});
  }
  require<Unsupported>(result.tasks.size() < (std::size_t{1} << 31),
                       "{} tasks are more than the kernels count", result.tasks.size());
  return result;
}

}  // namespace tessera::window_tasks
