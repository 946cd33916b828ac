// DASP (Lu and Liu, SC 2023): sparse matrix-vector products as the diagonals of MMAs, for up to
// eight vectors at a time.
//
// Rows are long, medium or short by their nonzeros. One operand of the MMA holds eight nonzeros of
// each of eight slots, the other the elements of B that they multiply; the sum of a slot is on the
// diagonal. A long row fills all slots, in parts of `part` nonzeros for a warp each, whose sums a
// second launch adds in their order; medium rows, sorted by length, have one slot each; two short
// rows share one. The packing is the kernel's own, made from CSR when A is uploaded.
//
// FP16 with FP32 sums is the paper's second type. Departures: there is no FP64; A's values are the
// right operand of m16n8k8, so that its sixteen rows are eight slots at two columns of B, where the
// paper's MMA serves one vector; up to eight columns instead of one (with more, every column takes
// another gather where SpMM kernels read whole rows: Unsupported); medium rows leave no irregular
// rest for CUDA cores, because sorting leaves little padding; short rows have at most four
// nonzeros, and zeros where they would meet the elements of another row. Values beyond FP16 become
// infinite.

#include "kernels/spmm/dasp/trace.hpp"

#include <algorithm>
#include <cmath>
#include <memory>

#include "formats/base/parallel.hpp"
#include "formats/base/registry.hpp"
#include "formats/csr.hpp"
#include "kernels/tensor_core/precision.hpp"

namespace tessera {
namespace dasp {

DaspOptions::DaspOptions(const Params& params)
    : long_row(params.integer("long_row")), part(params.integer("part")) {}

const Instance& instance_for(std::int64_t n) {
  const Instance* instance = find_instance(n);
  require<Unsupported>(instance != nullptr,
                       "dasp gathers single elements for dot products: it takes 1 to {} columns of "
                       "B, not {}",
                       kMaxCols, n);
  return *instance;
}

Packing::Packing(const CsrMatrix& a, const DaspOptions& options) {
  std::vector<std::int32_t> medium_rows, short_rows;
  for (std::int32_t row = 0; row < a.rows; ++row) {
    const std::int64_t nnz = a.row_length(row);
    if (nnz <= kShortRow)
      short_rows.push_back(row);
    else if (nnz < options.long_row)
      medium_rows.push_back(row);
    else
      add_long(a, row, options.part);
  }
  add_medium(a, std::move(medium_rows));
  add_short(a, short_rows);
  require<Unsupported>(num_chunks() < (std::int64_t{1} << 31),
                       "dasp takes less than 2^31 chunks, not {}", num_chunks());
}

std::uint32_t Packing::add_chunk() {
  nonzeros.resize(nonzeros.size() + kPlaces, -1);
  col_indices.resize(nonzeros.size(), kNoColumn);
  return static_cast<std::uint32_t>(num_chunks() - 1);
}

void Packing::put(std::uint32_t chunk, int slot, int place, const CsrMatrix& a,
                  std::int64_t nonzero) {
  const std::size_t at =
      std::size_t{chunk} * kPlaces + static_cast<std::size_t>(place_of(slot, place));
  nonzeros[at] = nonzero;
  col_indices[at] = a.col_indices[nonzero];
}

/// The nonzeros of a part fill slot after slot, chunk after chunk.
void Packing::add_long(const CsrMatrix& a, std::int32_t row, std::int64_t part) {
  const std::int64_t first = a.row_offsets[row], nnz = a.row_length(row);
  const std::int64_t parts = (nnz + part - 1) / part;
  long_rows.push_back(
      {row, static_cast<std::uint32_t>(num_parts), static_cast<std::uint32_t>(parts)});
  for (std::int64_t p = 0; p < parts; ++p) {
    const auto begin = static_cast<std::uint32_t>(num_chunks());
    std::uint32_t chunk = 0;
    for (std::int64_t i = p * part; i < std::min(nnz, (p + 1) * part); ++i) {
      const auto in_chunk = static_cast<int>((i - p * part) % kPlaces);
      if (in_chunk == 0) chunk = add_chunk();
      put(chunk, in_chunk / kDepth, in_chunk % kDepth, a, first + i);
    }
    tasks.push_back({begin, static_cast<std::uint32_t>(num_chunks()), Task::kLong,
                     static_cast<std::uint32_t>(num_parts++)});
  }
}

void Packing::add_medium(const CsrMatrix& a, std::vector<std::int32_t> of_class) {
  std::ranges::stable_sort(of_class, std::greater(),
                           [&](std::int32_t row) { return a.row_length(row); });
  for (std::size_t i = 0; i < of_class.size(); i += kSlots) {
    const auto begin = static_cast<std::uint32_t>(num_chunks());
    const auto index = static_cast<std::uint32_t>(rows.size());
    rows.resize(rows.size() + kSlots, kNoRow);
    for (std::int64_t k = 0; k < a.row_length(of_class[i]); k += kDepth) add_chunk();
    for (std::size_t slot = 0; slot < kSlots && i + slot < of_class.size(); ++slot) {
      const std::int32_t row = of_class[i + slot];
      rows[index + slot] = row;
      for (std::int64_t k = 0; k < a.row_length(row); ++k)
        put(begin + static_cast<std::uint32_t>(k / kDepth), static_cast<int>(slot),
            static_cast<int>(k % kDepth), a, a.row_offsets[row] + k);
    }
    tasks.push_back({begin, static_cast<std::uint32_t>(num_chunks()), Task::kMedium, index});
  }
}

void Packing::add_short(const CsrMatrix& a, const std::vector<std::int32_t>& of_class) {
  constexpr std::size_t kRows = 2 * kSlots;
  for (std::size_t i = 0; i < of_class.size(); i += kRows) {
    const std::uint32_t chunk = add_chunk();
    const auto index = static_cast<std::uint32_t>(rows.size());
    rows.resize(rows.size() + kRows, kNoRow);
    for (std::size_t j = 0; j < kRows && i + j < of_class.size(); ++j) {
      const std::int32_t row = of_class[i + j];
      rows[index + j] = row;
      for (std::int64_t k = 0; k < a.row_length(row); ++k)
        put(chunk, static_cast<int>(j % kSlots),
            static_cast<int>(j / kSlots) * kShortRow + static_cast<int>(k), a,
            a.row_offsets[row] + k);
    }
    tasks.push_back({chunk, chunk + 1, Task::kShort, index});
  }
}

}  // namespace dasp

namespace {

using namespace dasp;

/// Dot products as chains of MMAs.
class Chains {
 public:
  Chains(const CsrMatrix& a, const FusedStep& step, const PreparedB& b)
      : a_(a), precision_(find_precision("fp16")), step_(step), b_(b) {}

  /// Sums nonzeros of [first, last) in `c`, which is zero on entry: eight for each MMA, those of
  /// the next one `apart` further on.
  void run(std::int64_t first, std::int64_t last, std::int64_t apart, std::span<float> c) {
    RowChain chain(precision_, step_, b_, c);
    for (; first < last; first += apart) {
      terms_.clear();
      for (std::int64_t k = first; k < std::min(first + kDepth, last); ++k)
        terms_.push_back(
            {split(a_.values[k], precision_), a_.col_indices[k], static_cast<int>(k - first)});
      chain.add(terms_);
    }
    chain.finish();
  }

  /// Sums a part of a long row: a chain for each slot, then slots are added, neighbours first.
  void run_part(std::int64_t first, std::int64_t last, DenseMatrix& slots) {
    std::ranges::fill(slots.values, 0.0f);
    for (int slot = 0; slot < kSlots; ++slot)
      run(first + slot * kDepth, last, kPlaces, slots.row(slot));
    for (int apart = 1; apart < kSlots; apart *= 2)
      for (int slot = 0; slot < kSlots; slot += 2 * apart)
        add(slots.row(slot), slots.row(slot + apart));
  }

  static void add(std::span<float> sum, std::span<const float> part) {
    for (std::size_t j = 0; j < sum.size(); ++j) sum[j] = add_on_gpu(sum[j], part[j]);
  }

 private:
  const CsrMatrix& a_;
  const Precision& precision_;
  const FusedStep& step_;
  const PreparedB& b_;
  std::vector<ChunkTerm> terms_;
};

class Dasp final : public SpmmKernel {
 public:
  explicit Dasp(const DaspOptions& options) : options_(options) {}

  std::string format() const override { return CsrPacked::kFormat; }
  int version() const override { return 1; }

  Arithmetic arithmetic() const override {
    return {.sum = Arithmetic::Sum::kTensorCore,
            .type = MmaType::kFp16,
            .mma_depth = kDepth,
            .input_error = find_precision("fp16").input_error};
  }

  /// The addition of two chains has no larger error than one more MMA.
  std::vector<std::int64_t> terms_per_row(const PackedMatrix& packed) const override {
    std::vector<std::int64_t> terms = packed_as<CsrPacked>(packed).row_lengths();
    for (std::int64_t& count : terms) {
      if (count <= kShortRow || count < options_.long_row) {
        count = (count + kDepth - 1) / kDepth;
        continue;
      }
      const std::int64_t most = std::min(count, options_.part);
      count = (most + kPlaces - 1) / kPlaces + 3 + (count + options_.part - 1) / options_.part;
    }
    return terms;
  }

  DenseMatrix emulate(const PackedMatrix& packed, const DenseMatrix& b,
                      const Generation& generation) const override {
    const CsrMatrix& a = packed_as<CsrPacked>(packed).matrix;
    instance_for(b.cols);
    const FusedStep& step = generation.step(MmaType::kFp16);
    const PreparedB prepared(b, find_precision("fp16"));
    DenseMatrix c(a.rows, b.cols);
    parallel_for(a.rows, 16, [&](std::int64_t begin, std::int64_t end) {
      Chains chains(a, step, prepared);
      DenseMatrix slots(kSlots, b.cols);
      for (std::int64_t row = begin; row < end; ++row) {
        const std::int64_t first = a.row_offsets[row], last = a.row_offsets[row + 1];
        if (last - first <= kShortRow || last - first < options_.long_row) {
          chains.run(first, last, kDepth, c.row(row));
          continue;
        }
        for (std::int64_t at = first; at < last; at += options_.part) {
          chains.run_part(at, std::min(at + options_.part, last), slots);
          if (at == first)
            std::ranges::copy(slots.row(0), c.row(row).begin());
          else
            Chains::add(c.row(row), slots.row(0));
        }
      }
    });
    return c;
  }

  WorkDescription work(const PackedMatrix& packed, std::int64_t n) const override;

 private:
  DaspOptions options_;
};

WorkDescription Dasp::work(const PackedMatrix& packed, std::int64_t n) const {
  const CsrMatrix& a = packed_as<CsrPacked>(packed).matrix;
  return describe_work(packed, std::make_shared<const Packing>(a, options_), n);
}

const Register<SpmmKernel> entry{{
    .name = "dasp",
    .summary = "CSR rows as diagonals of FP16 MMAs, for up to 8 columns of B (DASP)",
    .params = {{"long_row",
                std::int64_t{256},
                "least nonzeros of a long row, whose parts several warps take",
                {},
                5,
                1 << 20},
               {"part",
                std::int64_t{512},
                "most nonzeros of a long row that a warp takes",
                {},
                kPlaces,
                1 << 20}},
    .make = [](const Params& params) { return std::make_unique<Dasp>(DaspOptions(params)); },
}};

}  // namespace
}  // namespace tessera
