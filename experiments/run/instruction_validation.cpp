#include "experiments/run/instruction_validation.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <memory>
#include <mutex>

#include "formats/base/parallel.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kPieceOutputs = 1 << 22;  // all arrays of a piece: some 150 MB

std::span<const float> tile_of(const std::vector<float>& values, std::int64_t tile, int size) {
  return std::span(values).subspan(static_cast<std::size_t>(tile * size),
                                   static_cast<std::size_t>(size));
}

/// Columns first to first + width - 1 of every row of a matrix with `cols` columns.
std::vector<float> take_columns(const std::vector<float>& matrix, std::size_t cols,
                                std::size_t first, std::size_t width) {
  std::vector<float> taken;
  taken.reserve(matrix.size() / cols * width);
  for (std::size_t row = 0; row < matrix.size(); row += cols)
    taken.insert(taken.end(), &matrix[row + first], &matrix[row + first] + width);
  return taken;
}

/// Each block of `block` values `times` times over.
std::vector<float> repeat_blocks(const std::vector<float>& values, std::size_t block, int times) {
  std::vector<float> repeated;
  repeated.reserve(values.size() * static_cast<std::size_t>(times));
  for (std::size_t first = 0; first < values.size(); first += block)
    for (int i = 0; i < times; ++i)
      repeated.insert(repeated.end(), values.data() + first, values.data() + first + block);
  return repeated;
}

using Runner = std::shared_ptr<const GpuInstruction>;

TileProduct alone(Runner instruction) {
  return [instruction](std::int64_t count, const MmaOperands& x) {
    return instruction->run(count, x.a, x.b, x.c);
  };
}

/// A tile of `whole` by an instruction that has fewer rows: one for each band of them.
TileProduct by_bands(const MmaInstruction& whole, const MmaInstruction& part, Runner instruction) {
  const int bands = whole.m / part.m;
  const auto size_b = static_cast<std::size_t>(whole.k * whole.n);
  return [=](std::int64_t count, const MmaOperands& x) {
    return instruction->run(count * bands, x.a, repeat_blocks(x.b, size_b, bands), x.c);
  };
}

/// A tile of `whole` by two instructions of half the depth, one after the other.
TileProduct by_halves(const MmaInstruction& whole, Runner instruction) {
  const auto k = static_cast<std::size_t>(whole.k), size_b = k * static_cast<std::size_t>(whole.n);
  return [=](std::int64_t count, const MmaOperands& x) {
    std::vector<float> sum = x.c;
    for (std::size_t half = 0; half < 2; ++half)
      sum = instruction->run(count, take_columns(x.a, k, half * k / 2, k / 2),
                             take_columns(x.b, size_b, half * size_b / 2, size_b / 2), sum);
    return sum;
  };
}

}  // namespace

BitDifferences& BitDifferences::operator+=(const BitDifferences& other) {
  compared += other.compared;
  values += other.values;
  signed_zeros += other.signed_zeros;
  nan_bits += other.nan_bits;
  return *this;
}

BitDifferences bit_differences(std::span<const float> expected, std::span<const float> found) {
  assert(expected.size() == found.size());
  BitDifferences all;
  std::mutex joining;
  parallel_for(std::ssize(expected), 1 << 16, [&](std::int64_t begin, std::int64_t end) {
    BitDifferences mine;
    mine.compared = end - begin;
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
      const float x = expected[i], y = found[i];
      if (std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y)) continue;
      ++(std::isnan(x) && std::isnan(y) ? mine.nan_bits : x == y ? mine.signed_zeros : mine.values);
    }
    const std::lock_guard lock(joining);
    all += mine;
  });
  return all;
}

TileProduct emulation(const MmaInstruction& mma, const FusedStep& step) {
  return [&mma, &step](std::int64_t count, const MmaOperands& x) {
    std::vector<float> d(x.c.size());
    parallel_for(count, 64, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t t = begin; t < end; ++t) {
        const auto c = tile_of(x.c, t, mma.m * mma.n);
        emulate_mma(mma, step, tile_of(x.a, t, mma.m * mma.k), tile_of(x.b, t, mma.k * mma.n), c,
                    std::span(d).subspan(static_cast<std::size_t>(t) * c.size(), c.size()));
      }
    });
    return d;
  };
}

std::vector<Comparison> instruction_comparisons(const Generation& generation,
                                                const Registry<GpuInstruction>& instructions) {
  std::vector<const MmaInstruction*> present;
  for (const MmaInstruction& mma : mma_instructions())
    if (instructions.contains(mma.name) &&
        std::ranges::find(mma.generations, generation.name) != mma.generations.end())
      present.push_back(&mma);
  const auto runner = [&](const MmaInstruction& mma) {
    return Runner(instructions.make(mma.name));
  };
  const auto has = [&](const MmaInstruction& mma) {
    return std::ranges::find(present, &mma) != present.end();
  };

  std::vector<Comparison> comparisons;
  for (const MmaInstruction* mma : present)
    comparisons.push_back({mma->name, "emulation", *mma, alone(runner(*mma)),
                           emulation(*mma, step_of(*mma, generation))});
  const std::string prefix = "wgmma.m64";
  for (const MmaInstruction* mma : present) {
    if (!mma->name.starts_with(prefix)) continue;
    const MmaInstruction& warp = find_instruction("m16" + mma->name.substr(prefix.size()));
    if (has(warp))
      comparisons.push_back(
          {mma->name, warp.name, *mma, alone(runner(*mma)), by_bands(*mma, warp, runner(warp))});
  }
  const MmaInstruction &whole = find_instruction("m16n8k8.tf32"),
                       &half = find_instruction("m16n8k4.tf32");
  if (has(whole) && has(half))
    comparisons.push_back({"two " + half.name, whole.name, whole, by_halves(whole, runner(half)),
                           alone(runner(whole)), steps_of(whole, step_of(whole, generation)) == 2});
  return comparisons;
}

BitDifferences compare(const Comparison& comparison, OperandFamily family, std::int64_t outputs,
                       std::uint64_t seed) {
  const MmaInstruction& mma = comparison.mma;
  const std::int64_t per_tile = mma.m * mma.n;
  const std::int64_t tiles = (outputs + per_tile - 1) / per_tile;
  const std::int64_t piece = kPieceOutputs / per_tile;
  BitDifferences differences;
  for (std::int64_t first = 0; first < tiles; first += piece) {
    const std::int64_t count = std::min(piece, tiles - first);
    const MmaOperands operands = draw_operands(family, mma, count, seed, first);
    const std::vector<float> found = comparison.found(count, operands);
    differences += bit_differences(comparison.expected(count, operands), found);
  }
  return differences;
}

}  // namespace tessera
