// SparseTIR's composable format hyb(c, k) for SpMM (Ye et al., ASPLOS 2023): A's columns are cut
// into c partitions; in each, a row goes to the bucket of ELL rows of 2^i entries that it fits, and
// a row with more than 2^k nonzeros is cut into several of the widest. One launch has the tasks of
// all partitions and buckets; a warp has 2^k entries, whatever their bucket, 32 times `coarsen`
// columns of C, and reads 32 neighbouring columns of a row of B at a time. FP32 on CUDA cores.
//
// Where paper and public code differ, the paper's k is taken, log2 of the mean row rounded up; the
// public code has a table of bucket widths by graph. Its c is searched among 1, 2, 4, 8 and 16.
//
// Departures. Rows in several parts are added in their order by a second launch, not by atomics, so
// that a product has the same bits every time; that launch also writes rows without a nonzero, and
// C needs no clearing. Entries without a nonzero read a row of B, but do not multiply it by zero.

#include "kernels/spmm/hyb/hyb.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "formats/base/check.hpp"
#include "formats/base/parallel.hpp"
#include "formats/base/registry.hpp"
#include "formats/csr.hpp"
#include "kernels/spmm/hyb/trace.hpp"
#include "kernels/spmm/scaled_row.hpp"
#include "kernels/spmm_kernel.hpp"
#include "kernels/tensor_core/precision.hpp"

namespace tessera {

using namespace hyb;

namespace hyb {
namespace {

/// Nonzeros [first, last) of a row, in one ELL row.
struct Part {
  std::int32_t row;
  std::int64_t partition, first, last;
  int log_width;
};

/// The exponent of the widest ELL rows: log2 of the mean row, rounded up.
int widest_for(const CsrMatrix& a, std::int64_t given) {
  if (given >= 0) return static_cast<int>(given);
  if (a.nnz() <= a.rows) return 0;
  const std::int64_t mean = (a.nnz() + a.rows - 1) / a.rows;
  return static_cast<int>(std::bit_width(static_cast<std::uint64_t>(mean - 1)));
}

/// Calls visit(part) for the parts of a row in the order of its columns. Where a partition of
/// `partition_cols` columns has more than 2^widest nonzeros of the row, all parts of it are ELL
/// rows of the widest.
template <class Visit>
void for_parts(const CsrMatrix& a, std::int32_t row, std::int64_t partition_cols, int widest,
               Visit visit) {
  const std::int64_t end = a.row_offsets[row + 1], most = std::int64_t{1} << widest;
  for (std::int64_t first = a.row_offsets[row]; first < end;) {
    const std::int64_t partition = a.col_indices[first] / partition_cols;
    std::int64_t last = first;
    while (last < end && a.col_indices[last] / partition_cols == partition) ++last;
    const auto length = static_cast<std::uint64_t>(last - first);
    const int log_width = std::min(static_cast<int>(std::bit_width(length - 1)), widest);
    for (; first < last; first += most)
      visit(Part{row, partition, first, std::min(first + most, last), log_width});
    first = last;
  }
}

std::int64_t cols_of_partition(const CsrMatrix& a, const HybOptions& options) {
  return std::max<std::int64_t>((a.cols + options.partitions - 1) / options.partitions, 1);
}

}  // namespace

HybOptions::HybOptions(const Params& params)
    : partitions(params.integer("partitions")),
      widest(params.integer("widest")),
      coarsen(params.integer("coarsen")) {}

int HybOptions::coarsen_for(std::int64_t n) const {
  const std::int64_t fits = static_cast<std::int64_t>(
      std::bit_floor(static_cast<std::uint64_t>(std::max<std::int64_t>(n / 32, 1))));
  return static_cast<int>(std::min(coarsen, fits));
}

Packing::Packing(const CsrMatrix& a, const HybOptions& options)
    : widest(widest_for(a, options.widest)) {
  const std::int64_t most = std::int64_t{1} << widest;
  const int buckets = widest + 1;
  struct SlottedPart {
    Part part;
    std::uint32_t slot;
  };
  std::vector<std::vector<SlottedPart>> of_bucket(
      static_cast<std::size_t>(options.partitions * buckets));
  std::int64_t all = 0;
  for (std::int32_t row = 0; row < a.rows; ++row) {
    std::uint32_t parts = 0;
    for_parts(a, row, cols_of_partition(a, options), widest, [&](const Part&) { ++parts; });
    std::uint32_t slot = 0;
    if (parts != 1) {
      finished_rows.push_back({row, static_cast<std::uint32_t>(num_slots), parts});
      slot = static_cast<std::uint32_t>(num_slots + 1);
      num_slots += parts;
    }
    for_parts(a, row, cols_of_partition(a, options), widest, [&](const Part& part) {
      of_bucket[part.partition * buckets + part.log_width].push_back({part, slot});
      all += std::int64_t{1} << part.log_width;
      if (slot != 0) ++slot;
    });
  }
  require<Unsupported>(all <= std::numeric_limits<std::uint32_t>::max(),
                       "hyb_spmm counts entries in 32 bits, and A has {}", all);
  nonzeros.reserve(static_cast<std::size_t>(all));
  for (std::size_t i = 0; i < of_bucket.size(); ++i) {
    const auto log_width = static_cast<std::uint32_t>(i % buckets);
    const std::int64_t width = std::int64_t{1} << log_width, of_task = most / width;
    const std::int64_t count = std::ssize(of_bucket[i]);
    for (std::int64_t first = 0; first < count; first += of_task)
      tasks.push_back({static_cast<std::uint32_t>(std::ssize(rows) + first),
                       static_cast<std::uint32_t>(std::min(of_task, count - first)),
                       static_cast<std::uint32_t>(entries() + first * width), log_width});
    for (const auto& [part, slot] : of_bucket[i]) {
      rows.push_back({part.row, slot});
      for (std::int64_t k = part.first; k < part.first + width; ++k)
        nonzeros.push_back(k < part.last ? k : -1);
    }
  }
  std::int32_t last = 0;
  for (const std::int64_t k : nonzeros) {
    if (k >= 0) last = a.col_indices[k];
    col_indices.push_back(k < 0 ? ~last : last);
  }
}

std::int64_t Packing::bytes() const {
  return static_cast<std::int64_t>(8 * nonzeros.size() + sizeof(EllRow) * rows.size() +
                                   sizeof(Task) * tasks.size() +
                                   sizeof(FinishedRow) * finished_rows.size());
}

}  // namespace hyb

namespace {

class Hyb final : public SpmmKernel {
 public:
  explicit Hyb(const HybOptions& options) : options_(options) {}

  std::string format() const override { return CsrPacked::kFormat; }
  int version() const override { return 1; }
  Arithmetic arithmetic() const override { return {}; }

  std::vector<std::int64_t> terms_per_row(const PackedMatrix& packed) const override {
    const auto& csr = packed_as<CsrPacked>(packed);
    std::vector<std::int64_t> terms = csr.row_lengths();
    for (const FinishedRow& row : Packing(csr.matrix, options_).finished_rows)
      terms[row.row] += row.parts;
    return terms;
  }

  DenseMatrix emulate(const PackedMatrix& packed, const DenseMatrix& b,
                      const Generation&) const override {
    const CsrMatrix& a = packed_as<CsrPacked>(packed).matrix;
    const Packing packing(a, options_);
    DenseMatrix c(a.rows, b.cols), slots(packing.num_slots, b.cols);
    parallel_for(std::ssize(packing.tasks), 16, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t t = begin; t < end; ++t)
        multiply(a, packing, packing.tasks[t], b, c, slots);
    });
    for (const FinishedRow& finished : packing.finished_rows) {
      const auto sum = c.row(finished.row);
      for (std::uint32_t part = 0; part < finished.parts; ++part) {
        const auto from = slots.row(finished.first_slot + part);
        for (std::size_t j = 0; j < sum.size(); ++j)
          sum[j] = part == 0 ? from[j] : add_on_gpu(sum[j], from[j]);
      }
    }
    return c;
  }

  WorkDescription work(const PackedMatrix& packed, std::int64_t n) const override {
    const CsrMatrix& a = packed_as<CsrPacked>(packed).matrix;
    return describe_work(a, std::make_shared<const Packing>(a, options_),
                         {.tasks = 0, .n = n, .coarsen = options_.coarsen_for(n)});
  }

 private:
  /// Sums the ELL rows of a task in C or in their slots, which are zero on entry.
  static void multiply(const CsrMatrix& a, const Packing& packing, const Task& task,
                       const DenseMatrix& b, DenseMatrix& c, DenseMatrix& slots) {
    const std::int64_t width = std::int64_t{1} << task.log_width;
    for (std::uint32_t r = 0; r < task.rows; ++r) {
      const EllRow& row = packing.rows[task.first_row + r];
      const auto sum = row.slot == 0 ? c.row(row.row) : slots.row(row.slot - 1);
      for (std::int64_t e = task.first_entry + r * width; e < task.first_entry + (r + 1) * width;
           ++e)
        if (const std::int64_t k = packing.nonzeros[e]; k >= 0)
          add_scaled_row(a.values[k], b.row(a.col_indices[k]).data(), sum.data(), b.cols);
      // The GPU has one NaN.
      for (float& value : sum)
        if (std::isnan(value)) value = std::bit_cast<float>(0x7fffffff);
    }
  }

  HybOptions options_;
};

const Register<SpmmKernel> entry{{
    .name = "hyb_spmm",
    .summary = "ELL rows in buckets by length and column partitions (SparseTIR's hyb, FP32)",
    .params = {{"partitions", std::int64_t{1}, "partitions of A's columns (c)", {}, 1, 64},
               {"widest",
                std::int64_t{-1},
                "log2 of the entries of the widest ELL rows (k); -1: of the mean row, rounded up",
                {},
                -1,
                12},
               {"coarsen",
                std::int64_t{2},
                "columns of C of a lane, at most, 32 apart",
                {"1", "2", "4"}}},
    .make = [](const Params& params) { return std::make_unique<Hyb>(HybOptions(params)); },
}};

}  // namespace
}  // namespace tessera
