// tile_spgemm's lists: the tiles of C by the tasks of kernels/row_spgemm_plan.cuh, the pairs of
// tiles that each is the sum of, its cells, and where they are in C. See kernels/tile_spgemm.cpp.
#pragma once

#include <cstdint>

#include "kernels/row_spgemm_plan.cuh"
#include "kernels/tile_spgemm_tiles.cuh"

namespace tessera::tile_spgemm {

/// A tile of A times a tile of B.
struct alignas(8) Pair {
  std::int32_t a, b;
};

/// A tile of C, and the list of its pairs.
struct alignas(16) TileOfC {
  std::int64_t first_pair;
  std::int32_t pairs;
  std::int32_t tile_row;
};

/// Tiles of C by tile row, then by tile column.
struct TilesOfCView {
  std::int64_t count;
  TileOfC* tiles;               // [count]
  std::int32_t* cols;           // [count]
  std::uint64_t* bitmaps;       // [count]
  std::uint32_t* cells_before;  // [count][8] in each row of C, in tiles before
  Pair* pairs;
};

/// How many products of tiles there are, and how many pairs have a place.
struct Found {
  unsigned long long products, pairs;
  std::uint32_t largest[2];  // magnitudes of A and B, as bits
};

/// Calls visit(rank of the tile of C, pair) for the pairs of a task whose bitmaps multiply to
/// something, those of a tile in the order of A's tile columns.
template <class Group, class Bitmap, class Visit>
__device__ void for_pairs(const row_spgemm::View& view, const Tile* tiles_of_a,
                          const Tile* tiles_of_b, const row_spgemm::Task& task,
                          row_spgemm::Segment* staged, int* scratch, std::int32_t* places,
                          const Bitmap& bitmap, Visit visit) {
  using namespace row_spgemm;
  struct Candidate {
    Pair pair{0, 0};
    std::int32_t col = -1;
  };
  for_products<Group, What::kPlaces>(
      view, task, staged, scratch, reinterpret_cast<std::uint32_t*>(places),
      [&](std::int32_t b, float place_in_a) {
        if (b < 0) return Candidate{};
        const std::int32_t a = __float_as_int(place_in_a);
        const Tile of_b = tiles_of_b[b];
        const bool meets = (inner_indices(tiles_of_a[a].bitmap) & inner_indices(of_b.bitmap)) != 0;
        return Candidate{{a, b}, meets ? of_b.col : -1};
      },
      [&](const Candidate& of) { return of.col < 0 ? -1 : bitmap.rank(of.col); },
      [&](const Candidate& of, int rank) { visit(rank, of.pair); });
}

/// Turns counts of pairs into places, from 0; returns their sum.
template <class Group>
__device__ int place_pairs(int* counts, int size, int* scratch) {
  int placed = 0;
  for (int first = 0; first < size; first += Group::kLanes) {
    const int i = first + Group::lane();
    int all = 0;
    const int before = placed + Group::before(i < size ? counts[i] : 0, all, scratch);
    if (i < size) counts[i] = before;
    placed += all;
  }
  Group::sync();
  return placed;
}

/// Lists the tiles of C of the tasks of one class, and their pairs, whose lists lie in any order.
template <class Group, class Bitmap>
__global__ void __launch_bounds__(Group::kIsBlock ? Group::kLanes : row_spgemm::kThreadsOfGroups)
    list_pairs(row_spgemm::View view, row_spgemm::Batch batch, int bytes,
               const std::int64_t* offsets, const Tile* tiles_of_a, const Tile* tiles_of_b,
               TilesOfCView c, unsigned long long* listed) {
  using namespace row_spgemm;
  extern __shared__ __align__(16) unsigned char shared[];
  __shared__ int scratch[Group::kWarps];
  __shared__ unsigned long long first_pairs[kGroups<Group>];
  const int group = static_cast<int>(threadIdx.x) / Group::kLanes;
  const int number = static_cast<int>(blockIdx.x) * kGroups<Group> + group;
  const SortedTask sorted = batch.at(number);
  const Task task = batch.task(sorted);
  const std::int64_t first = sorted.id < 0 ? 0 : offsets[sorted.id];
  const int count = sorted.id < 0 ? 0 : static_cast<int>(offsets[sorted.id + 1] - first);

  unsigned char* memory = shared + group * group_bytes<Group>(bytes);
  auto* staged = reinterpret_cast<Segment*>(memory);
  unsigned char* of_bitmap = memory + Group::kLanes * sizeof(Segment);
  Bitmap bitmap(task, of_bitmap);
  auto* places = reinterpret_cast<std::int32_t*>(of_bitmap + bitmap.bytes());
  Group::sync();
  mark_columns<Group>(view, task, staged, scratch, bitmap);
  rank_columns<Group>(bitmap, scratch, places, c.cols + first);
  for (int i = Group::lane(); i < count; i += Group::kLanes) places[i] = 0;
  Group::sync();
  for_pairs<Group>(view, tiles_of_a, tiles_of_b, task, staged, scratch, places, bitmap,
                   [&](int rank, const Pair&) { ++places[rank]; });
  const int pairs = place_pairs<Group>(places, count, scratch);
  if (Group::lane() == 0)
    first_pairs[group] = pairs == 0 ? 0 : atomicAdd(listed, static_cast<unsigned long long>(pairs));
  Group::sync();
  const auto first_pair = static_cast<std::int64_t>(first_pairs[group]);
  for (int i = Group::lane(); i < count; i += Group::kLanes)
    c.tiles[first + i] = {first_pair + places[i],
                          (i + 1 < count ? places[i + 1] : pairs) - places[i], task.row};
  Group::sync();
  for_pairs<Group>(view, tiles_of_a, tiles_of_b, task, staged, scratch, places, bitmap,
                   [&](int rank, const Pair& pair) {
                     c.pairs[first_pair + places[rank]] = pair;
                     ++places[rank];
                   });
}

/// The cells of C: eight lanes for each tile, a lane for a row of cells.
inline __global__ void __launch_bounds__(kThreads)
    find_cells(TilesOfCView c, const Tile* tiles_of_a, const Tile* tiles_of_b) {
  const std::int64_t at = global_thread() / kSide;
  const int lane = static_cast<int>(threadIdx.x) % kSide;
  const TileOfC tile = at < c.count ? c.tiles[at] : TileOfC{0, 0, 0};
  const int longest = __reduce_max_sync(kAllLanes, tile.pairs);
  std::uint64_t bytes = 0;
  for (int begin = 0; begin < longest; begin += kSide) {
    std::uint64_t of_a = 0, of_b = 0;
    if (begin + lane < tile.pairs) {
      const Pair pair = c.pairs[tile.first_pair + begin + lane];
      of_a = tiles_of_a[pair.a].bitmap;
      of_b = tiles_of_b[pair.b].bitmap;
    }
    const int steps = min(longest - begin, kSide);
    for (int s = 0; s < steps; ++s)
      bytes |= products_of_row(shuffle(of_a, s, kSide), shuffle(of_b, s, kSide), lane);
  }
  const std::uint64_t cells = join_rows(std::uint64_t{nonzero_bytes(bytes)} << kSide * lane);
  if (lane == 0 && at < c.count) c.bitmaps[at] = cells;
}

/// Where the cells of tiles are in their rows of C, and how many these have, 0 at the end: a warp
/// for each tile row, four tiles a step. first_tiles [tile rows + 1], row_lengths [rows + 1]
inline __global__ void __launch_bounds__(kThreads)
    place_cells(std::int32_t rows, std::int32_t tile_rows, const std::int64_t* first_tiles,
                TilesOfCView c, std::int32_t* row_lengths) {
  const std::int64_t tile_row = global_thread() / 32;
  if (tile_row >= tile_rows) return;
  const int lane = static_cast<int>(threadIdx.x) % 32, row = lane % kSide;
  constexpr int kTiles = 32 / kSide;  // of a step
  const std::int64_t end = first_tiles[tile_row + 1];
  std::uint32_t placed = 0;
  for (std::int64_t first = first_tiles[tile_row]; first < end; first += kTiles) {
    const std::int64_t at = first + lane / kSide;
    const std::uint64_t bitmap = at < end ? c.bitmaps[at] : 0;
    const auto own =
        static_cast<std::uint32_t>(__popc(static_cast<unsigned>(bitmap >> kSide * row) & 0xff));
    std::uint32_t sum = own;
#pragma unroll
    for (int step = kSide; step < 32; step *= 2) {
      const std::uint32_t before = __shfl_up_sync(kAllLanes, sum, step);
      if (lane >= step) sum += before;
    }
    if (at < end) c.cells_before[kSide * at + row] = placed + sum - own;
    placed += __shfl_sync(kAllLanes, sum, 32 - kSide + row);
  }
  const std::int64_t of_c = tile_row * kSide + row;
  if (lane < kSide && of_c < rows) row_lengths[of_c] = static_cast<std::int32_t>(placed);
  if (lane == 0 && tile_row == 0) row_lengths[rows] = 0;
}

}  // namespace tessera::tile_spgemm
