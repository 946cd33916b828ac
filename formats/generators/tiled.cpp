// tiled: a symmetric pattern with given numbers of nonempty 8x8, 16x8 and 16x16 tiles, as the
// published tile counts of a matrix give them, and a given number of nonzeros.
//
// Tiles of 16x16 lie on the diagonal and in mirrored pairs beside it. The distance of a pair from
// the diagonal, at most `reach` tiles, has equal chances in every octave. An off-diagonal tile
// holds one to four nonempty quarters; the three counts and the mirror symmetry fix how many tiles
// hold one, two, three and four, but for the share of two side by side. A quarter's nonzeros are a
// rectangle at a random place in it, nearly square; their number varies by 0.9 of its mean.
// Tile rows are equally likely or, with a tail, as uneven as Pareto weights.
//
// Counts are met to 0.1 %, since an odd number cannot be mirrored. Where n is no multiple of 16,
// tiles of the last tile row and column may lose their quarters outside the matrix. The counts do
// not fix distances, rectangles and the distribution over tile rows: these are assumed.

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"
#include "formats/generators/assemble.hpp"
#include "formats/generators/distinct_draws.hpp"

namespace tessera {
namespace {

struct Counts {
  std::int64_t n, nnz, tiles_8x8, tiles_16x8, tiles_16x16, reach;
  double tail;
  bool diagonal;  // the diagonal is full

  std::int64_t blocks() const { return (n + 15) / 16; }
};

/// An 8x8 tile of the lower triangle; one with row = col holds its strict lower triangle only.
struct Quarter {
  std::int32_t row, col;    // in tiles of 8
  std::int32_t rows, cols;  // inside the matrix
  std::int64_t nonzeros = 0;

  bool on_diagonal() const { return row == col; }
  std::int64_t capacity() const {
    return on_diagonal() ? std::int64_t{rows} * (rows - 1) / 2 : std::int64_t{rows} * cols;
  }
  /// Adds `wanted` nonzeros, or as many as there is room for, and returns their number.
  std::int64_t take(std::int64_t wanted) {
    const std::int64_t taken = std::min(wanted, capacity() - nonzeros);
    nonzeros += taken;
    return taken;
  }
};

/// The numbers of off-diagonal 16x16 tiles by what they hold, mirror images not counted.
struct Mix {
  std::int64_t one, side_by_side, crosswise, three, four;
};

/// Solves for the mix from the means, over these tiles and their mirror images, of the nonempty
/// quarters and halves (16x8) of a tile. A tile of two side by side has 1 or 2 halves, its mirror
/// image the other number.
Mix mix_of(std::int64_t pairs, double quarters, double halves) {
  const double surplus = quarters - 2 * halves + 1;
  const double crosswise = std::max(0.0, -surplus), four = std::max(0.0, surplus);
  const double most = std::min(2 * (2 - halves), 2 * (halves - 1 - four - crosswise));
  const double side_by_side = 0.75 * std::max(0.0, most);
  const auto count = [&](double share) {
    return std::llround(std::clamp(share, 0.0, 1.0) * static_cast<double>(pairs));
  };
  Mix mix{count(2 - halves - side_by_side / 2), count(side_by_side), count(crosswise), 0,
          count(four)};
  mix.three = pairs - mix.one - mix.side_by_side - mix.crosswise - mix.four;
  if (mix.three < 0) mix.one += std::exchange(mix.three, 0);
  return mix;
}

/// Places (row, col) of `pairs` tiles below the diagonal, as row << 32 | col.
std::vector<std::uint64_t> places_of(const Counts& counts, std::int64_t pairs, std::int64_t seed) {
  const auto blocks = static_cast<std::uint64_t>(counts.blocks());
  const std::uint64_t reach = std::min<std::uint64_t>(counts.reach, blocks - 1);
  const WeightedChoice rows(pareto_weights(counts.blocks(), counts.tail, stream_seed(seed, 2)));
  return distinct_draws("tiled", pairs, stream_seed(seed, 0), [&](RandomSequence& random) {
    for (;;) {
      const auto row = static_cast<std::uint64_t>(rows.draw(random));
      const std::uint64_t octave = random.below(std::bit_width(reach));
      const std::uint64_t distance = (1u << octave) + random.below(1u << octave);
      const bool below = random.unit() < 0.5;
      if (distance > reach || (below ? row + distance >= blocks : distance > row)) continue;
      return below ? (row + distance) << 32 | row : row << 32 | (row - distance);
    }
  });
}

class TiledPattern {
 public:
  TiledPattern(const Counts& counts, std::int64_t seed) : counts_(counts), seed_(seed) {
    const std::int64_t blocks = counts.blocks();
    require(blocks > 1, "tiled: n = {} is less than two tiles of 16", counts.n);
    require(counts.tiles_16x16 >= blocks, "tiled: {} tiles do not fill {} diagonal places",
            counts.tiles_16x16, blocks);
    require(counts.tiles_16x16 <= counts.tiles_16x8 && counts.tiles_16x8 <= counts.tiles_8x8 &&
                counts.tiles_16x8 <= 2 * counts.tiles_16x16 &&
                counts.tiles_8x8 <= 2 * counts.tiles_16x8,
            "tiled: {}, {} and {} tiles of 8x8, 16x8 and 16x16 contradict each other",
            counts.tiles_8x8, counts.tiles_16x8, counts.tiles_16x16);
    const std::int64_t pairs = (counts.tiles_16x16 - blocks) / 2;
    full_ = full_diagonal_tiles(pairs);
    for (std::int64_t block = 0; block < blocks; ++block) add_diagonal(block, block < full_);
    if (pairs > 0) add_pairs(pairs);
    std::ranges::sort(quarters_, [](const Quarter& a, const Quarter& b) {
      return a.row != b.row ? a.row < b.row : a.col < b.col;
    });
    share_nonzeros();
  }

  CsrMatrix matrix() const;

 private:
  void add(std::int64_t row, std::int64_t col) {
    const auto inside = [&](std::int64_t tile) {
      return static_cast<std::int32_t>(std::min<std::int64_t>(8, counts_.n - 8 * tile));
    };
    if (inside(row) > 0 && inside(col) > 0)
      quarters_.push_back({static_cast<std::int32_t>(row), static_cast<std::int32_t>(col),
                           inside(row), inside(col)});
  }

  /// The number of diagonal tiles with four quarters, the others have two: as dense as the mean,
  /// but enough of them that the other tiles need no more quarters than their halves can hold.
  std::int64_t full_diagonal_tiles(std::int64_t pairs) const {
    const std::int64_t blocks = counts_.blocks();
    const std::int64_t quarters = counts_.tiles_8x8 - 2 * blocks;
    const std::int64_t halves = counts_.tiles_16x8 - 2 * blocks;
    const std::int64_t most = 3 * halves - 4 * pairs;  // all four only where both halves are
    const double mean =
        static_cast<double>(counts_.tiles_8x8) / static_cast<double>(counts_.tiles_16x16);
    const auto usual = static_cast<std::int64_t>((mean - 1) / 2 * static_cast<double>(blocks));
    return std::clamp<std::int64_t>(std::max(usual, (quarters - most) / 2), 0, blocks);
  }

  void add_diagonal(std::int64_t block, bool full) {
    add(2 * block, 2 * block);
    add(2 * block + 1, 2 * block + 1);
    if (full) add(2 * block + 1, 2 * block);
  }

  void add_pairs(std::int64_t pairs) {
    const auto tiles = 2 * static_cast<double>(pairs);
    const std::int64_t blocks = counts_.blocks();
    const Mix mix =
        mix_of(pairs, static_cast<double>(counts_.tiles_8x8 - 2 * blocks - 2 * full_) / tiles,
               static_cast<double>(counts_.tiles_16x8 - 2 * blocks) / tiles);
    // Bit 2 i + j: quarter (i, j) is nonempty. Two masks take turns where a mirror image differs.
    std::vector<unsigned> masks;
    const auto repeat = [&](std::int64_t count, std::initializer_list<unsigned> kinds) {
      for (std::int64_t i = 0; i < count; ++i) masks.push_back(kinds.begin()[i % kinds.size()]);
    };
    repeat(mix.one, {1, 2, 4, 8});
    repeat(mix.side_by_side, {3, 5, 12, 10});
    repeat(mix.crosswise, {9, 6});
    repeat(mix.three, {7, 11, 13, 14});
    repeat(mix.four, {15});
    RandomSequence random(stream_seed(seed_, 3));
    random.shuffle(masks);
    const std::vector<std::uint64_t> places = places_of(counts_, pairs, seed_);
    for (std::size_t i = 0; i < places.size() && i < masks.size(); ++i)
      for (int bit = 0; bit < 4; ++bit)
        if ((masks[i] >> bit & 1) != 0)
          add(2 * static_cast<std::int64_t>(places[i] >> 32) + bit / 2,
              2 * static_cast<std::int64_t>(places[i] & 0xffffffff) + bit % 2);
  }

  /// Gives every quarter one nonzero at least, those on an empty diagonal the cells next to it, and
  /// shares the others out.
  void share_nonzeros() {
    std::int64_t left = (counts_.nnz - (counts_.diagonal ? counts_.n : 0)) / 2, room = 0;
    for (Quarter& quarter : quarters_) {
      const std::int64_t beside = counts_.diagonal ? 0 : quarter.rows - 1;
      left -= quarter.take(quarter.on_diagonal() ? beside : 1);
      room += quarter.capacity() - quarter.nonzeros;
    }
    require(left >= 0 && left <= room, "tiled: {} nonzeros do not fit {} tiles of 8x8", counts_.nnz,
            counts_.tiles_8x8);
    std::vector<double> shares(quarters_.size());
    double total = 0;
    for (std::size_t i = 0; i < shares.size(); ++i) {
      const double u = random_unit(stream_seed(seed_, 4), i);
      shares[i] = u * u * static_cast<double>(quarters_[i].capacity());
      total += shares[i];
    }
    // What a full quarter cannot take is shared out in the next turn.
    while (left > 0) {
      const std::int64_t turn = left;
      double owed = 0;
      for (std::size_t i = 0; i < shares.size(); ++i) {
        owed += shares[i] / total * static_cast<double>(turn);
        const auto whole = static_cast<std::int64_t>(owed);
        owed -= static_cast<double>(whole);
        left -= quarters_[i].take(std::min(whole, left));
      }
      if (left < turn) continue;
      for (Quarter& quarter : quarters_) left -= quarter.take(std::min<std::int64_t>(1, left));
    }
  }

  Counts counts_;
  std::int64_t seed_, full_ = 0;
  std::vector<Quarter> quarters_;
};

/// Calls visit(i, j) for the cells of a quarter: beside the diagonal, or a rectangle anywhere.
template <class Visit>
void for_each_cell(const Quarter& quarter, RandomSequence random, Visit visit) {
  std::int64_t left = quarter.nonzeros;
  if (quarter.on_diagonal()) {
    for (std::int32_t distance = 1; distance < quarter.rows; ++distance)
      for (std::int32_t j = 0; j + distance < quarter.rows && left > 0; ++j, --left)
        visit(j + distance, j);
    return;
  }
  std::int32_t height = 1;
  while (height < quarter.rows &&
         (std::int64_t{height} * height < left || std::int64_t{height} * quarter.cols < left))
    ++height;
  const auto width = static_cast<std::int32_t>((left + height - 1) / height);
  const auto top = static_cast<std::int32_t>(random.below(quarter.rows - height + 1));
  const auto side = static_cast<std::int32_t>(random.below(quarter.cols - width + 1));
  for (std::int32_t i = 0; i < height; ++i)
    for (std::int32_t j = 0; j < width && left > 0; ++j, --left) visit(top + i, side + j);
}

CsrMatrix TiledPattern::matrix() const {
  const std::uint64_t values = stream_seed(seed_, 1), places = stream_seed(seed_, 5);
  std::vector<Triplet> entries;
  entries.reserve(counts_.nnz);
  for (std::size_t q = 0; q < quarters_.size(); ++q) {
    const Quarter& quarter = quarters_[q];
    for_each_cell(quarter, RandomSequence(random_bits(places, q)), [&](int i, int j) {
      const std::int32_t row = 8 * quarter.row + i, col = 8 * quarter.col + j;
      const float value = cell_value(values, col, row);
      entries.push_back({row, col, value});
      entries.push_back({col, row, value});
    });
  }
  const auto n = static_cast<std::int32_t>(counts_.n);
  for (std::int32_t i = 0; counts_.diagonal && i < n; ++i)
    entries.push_back({i, i, cell_value(values, i, i)});
  return assemble_entries(n, n, entries);
}

ParamSpec tile_count(const char* shape, std::int64_t fallback) {
  return {fmt::format("tiles_{}", shape),
          fallback,
          fmt::format("nonempty {} tiles", shape),
          {},
          1,
          0x1p33};
}

const Register<Generator> entry{{
    .name = "tiled",
    .summary = "symmetric pattern with given numbers of nonempty 8x8, 16x8 and 16x16 tiles",
    .params =
        {{"n", std::int64_t{1074}, "rows and columns", {}, 1, kMaxSizeParameter},
         {"nnz", std::int64_t{51588}, "nonzeros", {}, 0, 0x1p33},
         tile_count("8x8", 1643),
         tile_count("16x8", 1080),
         tile_count("16x16", 650),
         {"reach", std::int64_t{16}, "largest distance from the diagonal, tiles", {}, 1, 0x1p31},
         {"tail", 0.0, "Pareto tail of the tiles of a tile row; 0: even", {}, 0, 1},
         {"diagonal", true, "the diagonal is full"},
         {"seed", std::int64_t{1}, "seed of places and values"}},
    .make =
        [](const Params& p) {
          return make_generator([p] {
            const Counts counts{matrix_extent({p.integer("n")}),
                                p.integer("nnz"),
                                p.integer("tiles_8x8"),
                                p.integer("tiles_16x8"),
                                p.integer("tiles_16x16"),
                                p.integer("reach"),
                                p.real("tail"),
                                p.flag("diagonal")};
            return TiledPattern(counts, p.integer("seed")).matrix();
          });
        },
}};

}  // namespace
}  // namespace tessera
