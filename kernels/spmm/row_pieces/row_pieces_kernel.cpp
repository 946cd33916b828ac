#include "kernels/spmm/row_pieces/row_pieces_kernel.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "formats/base/parallel.hpp"
#include "formats/csr.hpp"
#include "kernels/spmm/row_pieces/row_pieces_trace.hpp"
#include "kernels/spmm/scaled_row.hpp"
#include "kernels/tensor_core/precision.hpp"

namespace tessera::row_pieces {
namespace {

/// The sums of a row part: a chain for each group of lanes, then the halves are added to each other
/// until one is left.
class RowPartSum {
 public:
  RowPartSum(const CsrMatrix& a, const DenseMatrix& b, int groups)
      : a_(a), b_(b), sums_(static_cast<std::size_t>(groups), std::vector<float>(b.cols)) {}

  const std::vector<float>& of(const RowPart& part) {
    const auto groups = static_cast<std::uint32_t>(sums_.size());
    for (std::uint32_t g = 0; g < groups; ++g) {
      std::ranges::fill(sums_[g], 0.0f);
      for (std::int64_t k = std::int64_t{part.first} + g; k < part.last; k += groups)
        add_scaled_row(a_.values[k], b_.row(a_.col_indices[k]).data(), sums_[g].data(), b_.cols);
      // The GPU has one NaN.
      for (float& value : sums_[g])
        if (std::isnan(value)) value = std::bit_cast<float>(0x7fffffff);
    }
    for (std::uint32_t half = groups / 2; half > 0; half /= 2)
      for (std::uint32_t g = 0; g < half; ++g) add(sums_[g], sums_[g + half]);
    return sums_[0];
  }

  template <class To, class From>
  static void add(To& to, const From& from) {
    for (std::size_t j = 0; j < from.size(); ++j) to[j] = add_on_gpu(to[j], from[j]);
  }

 private:
  const CsrMatrix& a_;
  const DenseMatrix& b_;
  std::vector<std::vector<float>> sums_;  // [groups][n]
};

/// The row part of each slot. [slots]
std::vector<std::uint32_t> parts_of_slots(const Plan& plan) {
  std::vector<std::uint32_t> parts(plan.split_row_of_slot.size());
  for (std::uint32_t p = 0; p < plan.row_parts.size(); ++p)
    if (plan.row_parts[p].slot != 0) parts[plan.row_parts[p].slot - 1] = p;
  return parts;
}

}  // namespace

std::string RowPiecesKernel::format() const { return CsrPacked::kFormat; }

std::vector<std::int64_t> RowPiecesKernel::terms_per_row(const PackedMatrix& packed) const {
  const auto& csr = packed_as<CsrPacked>(packed);
  std::vector<std::int64_t> terms = csr.row_lengths();
  for (const SplitRow& split : method_.cut(csr.matrix).split_rows)
    terms[split.row] += split.num_parts;
  // The chains of a row part are added to each other, for any width of B.
  if (const int groups = method_.shape(csr.matrix, 1).groups; groups > 1)
    for (std::int64_t& count : terms)
      if (count > 0) count += groups;
  return terms;
}

DenseMatrix RowPiecesKernel::emulate(const PackedMatrix& packed, const DenseMatrix& b,
                                     const Generation&) const {
  const CsrMatrix& a = packed_as<CsrPacked>(packed).matrix;
  const Plan plan = method_.cut(a);
  require<Unsupported>(
      plan.split_rows.empty() || !method_.atomic,
      "combine = atomic adds the parts of {} split rows in no fixed order, so that there "
      "is nothing to emulate",
      plan.split_rows.size());
  const std::vector<std::uint32_t> part_of_slot = parts_of_slots(plan);
  DenseMatrix c(a.rows, b.cols);
  const auto count = static_cast<std::int64_t>(plan.row_parts.size());
  const int groups = method_.shape(a, b.cols).groups;
  parallel_for(count, 64, [&](std::int64_t begin, std::int64_t end) {
    RowPartSum sum(a, b, groups);
    for (std::int64_t p = begin; p < end; ++p) {
      const RowPart& part = plan.row_parts[p];
      std::uint32_t num_parts = 1;
      if (part.slot != 0) {
        // The first row part of a row computes all of the row.
        const SplitRow& split = plan.split_rows[plan.split_row_of_slot[part.slot - 1]];
        if (split.first_slot != part.slot - 1) continue;
        num_parts = split.num_parts;
      }
      const auto row = c.row(part.row);
      std::ranges::copy(sum.of(part), row.begin());
      for (std::uint32_t i = 1; i < num_parts; ++i)
        RowPartSum::add(row, sum.of(plan.row_parts[part_of_slot[part.slot - 1 + i]]));
    }
  });
  return c;
}

WorkDescription RowPiecesKernel::work(const PackedMatrix& packed, std::int64_t n) const {
  const CsrMatrix& a = packed_as<CsrPacked>(packed).matrix;
  const auto plan = std::make_shared<const Plan>(method_.cut(a));
  WorkDescription work{.kernel = method_.name};
  work.footprint_bytes = stats(packed).bytes;
  work.b_rows_bytes = 4 * n * count_distinct(a.col_indices, a.cols);
  work.c_bytes = 4 * n * a.rows;
  work.useful_flops = 2 * a.nnz() * n;
  describe_launches(a, plan, method_, n, work);
  return work;
}

}  // namespace tessera::row_pieces
