#include "experiments/backends/check_result.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "formats/base/check.hpp"
#include "formats/base/parallel.hpp"
#include "formats/base/row_parts.hpp"
#include "formats/base/vector_clones.hpp"
#include "formats/unpack_parts.hpp"
#include "kernels/spmm/narrowed/narrowed_b.hpp"
#include "oracle/error_bounds.hpp"
#include "oracle/sddmm_oracle.hpp"
#include "oracle/spgemm_oracle.hpp"
#include "oracle/spmm_oracle.hpp"

namespace tessera {
namespace {

/// The largest magnitude but for infinities and NaNs. Magnitudes have the order of their bits.
TESSERA_VECTOR_CLONES
float largest_finite_of(const float* values, std::int64_t count) {
  constexpr std::uint32_t kInfinite = 0x7f800000;
  std::uint32_t most = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(values[i]) & 0x7fffffff;
    most = std::max(most, magnitude < kInfinite ? magnitude : 0u);
  }
  return std::bit_cast<float>(most);
}

double largest_finite(std::span<const float> values) {
  constexpr std::int64_t kGrain = 1 << 20;
  std::vector<float> most((values.size() + kGrain - 1) / kGrain);
  parallel_for(std::ssize(values), kGrain, [&](std::int64_t begin, std::int64_t end) {
    most[begin / kGrain] = largest_finite_of(values.data() + begin, end - begin);
  });
  return most.empty() ? 0.0 : double{std::ranges::max(most)};
}

/// Smallest subnormal of an operand's type.
double quantum_of(MmaType type) {
  const NumberFormat format = operand_format(type);
  return std::ldexp(1.0, format.min_exponent - format.fraction_bits);
}

/// Fused steps for the same products: an MMA deeper than a step is several, a split operand takes
/// several MMAs.
std::int64_t steps_per_chunk(const Arithmetic& arithmetic, const FusedStep& step) {
  return std::int64_t{arithmetic.mmas_per_chunk} *
         ((arithmetic.mma_depth + step.products - 1) / step.products);
}

/// The error bound of a row whose sum takes `chunks` chunks of MMAs, relative to |A||B|.
double tensor_core_row_bound(const Arithmetic& arithmetic, const FusedStep& step,
                             std::int64_t chunks) {
  const std::int64_t chain =
      arithmetic.promote > 0 ? std::min<std::int64_t>(arithmetic.promote, chunks) : chunks;
  double sum = tensor_core_bound(chain * steps_per_chunk(arithmetic, step), step.products,
                                 step.fraction_bits);
  if (arithmetic.mmas_per_chunk > 1) {
    // The parts' products add up to a little more than |a||b|, and a residual step meets the sum
    // itself as well: together less than 2.1 |A||B|. The accumulators are added once a chain.
    sum *= 2.1;
    const std::int64_t chains = chain > 0 ? (chunks + chain - 1) / chain : 0;
    sum = combine(sum, fp32_sum_bound(2 * chains));
  } else if (arithmetic.promote > 0 && chain > 0) {
    sum = combine(sum, fp32_sum_bound((chunks + chain - 1) / chain));
  }
  return combine(input_rounding_bound(arithmetic.input_error), sum);
}

/// The bound on the error of an element: one part relative to |A||B|, one absolute.
struct ElementBound {
  double relative, absolute;
};

/// The products of an element's sum, and the largest finite magnitudes of their factors.
struct Products {
  std::int64_t count;
  double largest_a, largest_b;
};

/// The fused step of the arithmetic's MMAs; null without tensor cores.
const FusedStep* step_of(const Arithmetic& arithmetic, const std::string& generation) {
  if (arithmetic.sum != Arithmetic::Sum::kTensorCore) return nullptr;
  return &find_generation(generation).step(arithmetic.type);
}

/// The bound of a sum of `terms` terms, as the kernel counts them, in registers.
ElementBound register_sum_bound(const Arithmetic& arithmetic, const FusedStep* step,
                                std::int64_t terms, const Products& products) {
  const auto& [count, largest_a, largest_b] = products;
  if (arithmetic.sum == Arithmetic::Sum::kFp32) {
    const ElementBound bound{fp32_sum_bound(terms), underflow_bound(count)};
    if (!arithmetic.narrows) return bound;
    const double lost = narrowed::kLost * largest_a * largest_b * static_cast<double>(count);
    return {combine(rounding_error(ElementType::kFp16), bound.relative),
            bound.absolute * (1 + largest_b) + (1 + bound.relative) * lost + underflow_bound(2)};
  }
  if (arithmetic.sum == Arithmetic::Sum::kFp64) {
    // The result is rounded to FP32 once; below FP32's normal range that loses 2^-150 at most.
    constexpr double kRounding = 0x1p-24;
    return {combine(kRounding, fp64_sum_bound(terms)), underflow_bound(1)};
  }
  if (arithmetic.sum == Arithmetic::Sum::kInteger) {
    // Both scales are rounded, and so are the sum and its products with them. Below FP32's normal
    // range a scale is off by half its spacing, up to 127 times that in an operand, and what the
    // sum times the scale of A loses there is multiplied by that of B.
    constexpr int kRoundings = 5;
    constexpr double kScaleLost = 127 * 0x1p-150;
    const double lost = input_rounding_bound(arithmetic.quantisation);
    return {fp32_sum_bound(kRoundings),
            underflow_bound(kRoundings) * (1 + largest_b) +
                (1 + fp32_sum_bound(kRoundings)) *
                    (lost * largest_a * largest_b * static_cast<double>(count) +
                     operand_underflow_bound(count, largest_a + largest_b, kScaleLost))};
  }
  // What is not narrowed is multiplied in TF32, whose MMAs have up to twice the steps.
  const double relative =
      tensor_core_row_bound(arithmetic, *step, arithmetic.narrows ? 2 * terms : terms);
  if (arithmetic.narrows)
    return {relative,
            (1 + largest_a * largest_b) * underflow_bound(2 * terms + 2) +
                operand_underflow_bound(count, largest_a + largest_b, quantum_of(MmaType::kTf32)) +
                3 * narrowed::kLost * largest_a * largest_b * static_cast<double>(count)};
  const std::int64_t results = terms * steps_per_chunk(arithmetic, *step);
  const double quantum = quantum_of(arithmetic.type);
  // Both operands are below 2 after scaling; what is lost there comes back scaled.
  const double back = largest_a * largest_b;
  if (arithmetic.equilibrated)
    return {relative, underflow_bound(results) * (1 + back) +
                          operand_underflow_bound(count, 4, quantum) * back};
  return {relative, underflow_bound(results) +
                        operand_underflow_bound(count, largest_a + largest_b, quantum)};
}

/// The bound of a sum of `terms` terms, as the kernel counts them. It does not cover what the types
/// of the operands in memory add.
ElementBound sum_bound(const Arithmetic& arithmetic, const FusedStep* step, std::int64_t terms,
                       const Products& products) {
  ElementBound bound = register_sum_bound(arithmetic, step, terms, products);
  if (arithmetic.adds_in_memory) bound.absolute += flushed_addition_bound(products.count);
  return bound;
}

/// True where operands are rounded to their type in memory, and not to that of MMAs anyway.
bool rounds_stored_operands(const Arithmetic& arithmetic) {
  return arithmetic.storage.b != ElementType::kFp32 && arithmetic.sum == Arithmetic::Sum::kFp32;
}

/// Adds the error of rounding the result to its type in memory, as often as the kernel does.
void add_result_storage(const Arithmetic& arithmetic, ElementBound& bound) {
  const ElementType type = arithmetic.storage.c;
  if (type == ElementType::kFp32) return;
  for (int i = 0; i < arithmetic.roundings_of_c; ++i) {
    bound.relative = combine(rounding_error(type), bound.relative);
    bound.absolute = (1 + rounding_error(type)) * bound.absolute + underflow_error(type);
  }
}

/// A bound for each row of a matrix.
class RowBounds {
 public:
  RowBounds(std::int32_t rows, const Storage& storage) {
    bound_.relative.resize(rows);
    bound_.absolute.resize(rows);
    bound_.largest = largest_of(storage.c);
  }
  void set(std::int32_t row, const ElementBound& bound) {
    bound_.relative[row] = bound.relative;
    bound_.absolute[row] = bound.absolute;
  }
  const ErrorBound& bound() const { return bound_; }

 private:
  ErrorBound bound_;
};

/// The properties of a product that decide its error.
struct Sums {
  Arithmetic arithmetic;
  std::vector<std::int64_t> terms;  // [rows], as the kernel has them
  Permutation rows;                 // order of those, against A
  const std::string& generation;
  double largest_b;
};

/// The error bound of each row of A.
ErrorBound bound_of(const CsrMatrix& a, const Sums& sums) {
  const Arithmetic& arithmetic = sums.arithmetic;
  const auto old_of_new = sums.rows.old_of_new();
  const double largest_a = largest_finite(a.values);
  const FusedStep* step = step_of(arithmetic, sums.generation);
  RowBounds bounds(a.rows, arithmetic.storage);
  for (std::int32_t p = 0; p < a.rows; ++p) {
    const std::int32_t row = old_of_new[p];
    const auto nnz = a.row_length(row);
    ElementBound bound =
        sum_bound(arithmetic, step, sums.terms[p], {nnz, largest_a, sums.largest_b});
    if (rounds_stored_operands(arithmetic)) {
      const ElementType b = arithmetic.storage.b;
      bound.absolute +=
          (1 + bound.relative) * underflow_error(b) * largest_a * static_cast<double>(nnz);
      bound.relative = combine(rounding_error(b), bound.relative);
    }
    add_result_storage(arithmetic, bound);
    bounds.set(row, bound);
  }
  return bounds.bound();
}

/// The error bound of each row of S.
ErrorBound bound_of(const SampledComputation& computation) {
  const auto& [kernel, a, x, y, generation] = computation;
  const Arithmetic arithmetic = kernel.arithmetic();
  const std::int64_t k = x.cols;
  const double largest_x = largest_finite(x.values), largest_y = largest_finite(y.values);
  ElementBound of_dot = sum_bound(arithmetic, step_of(arithmetic, generation), kernel.terms(k),
                                  {k, largest_x, largest_y});
  if (rounds_stored_operands(arithmetic)) {
    const ElementType type = arithmetic.storage.b;
    of_dot.absolute += (1 + of_dot.relative) *
                       operand_underflow_bound(k, largest_x + largest_y, underflow_error(type));
    of_dot.relative = combine(input_rounding_bound(rounding_error(type)), of_dot.relative);
  }
  RowBounds bounds(a.rows, arithmetic.storage);
  for (std::int32_t row = 0; row < a.rows; ++row) {
    ElementBound bound = of_dot;
    if (kernel.scales_by_a()) {
      constexpr double kRounding = 0x1p-24;
      bound.relative = combine(kRounding, bound.relative);
      bound.absolute =
          (1 + kRounding) * bound.absolute * largest_finite(a.row_values(row)) + underflow_bound(1);
    }
    add_result_storage(arithmetic, bound);
    bounds.set(row, bound);
  }
  return bounds.bound();
}

double finite_or_huge(double value) { return std::isfinite(value) ? value : 1e300; }

/// JSON has no NaN and no infinity: they are text.
NumberOrText number_or_text(double value) {
  if (std::isfinite(value)) return value;
  return fmt::format("{}", value);
}

QuantilesPart part_of(const Quantiles& values) {
  return {finite_or_huge(values.p50), finite_or_huge(values.p95), finite_or_huge(values.p99),
          finite_or_huge(values.max)};
}

/// Up to the last place that is not empty.
UlpHistogramPart part_of(const UlpHistogram& histogram) {
  std::size_t size = histogram.size();
  while (size > 0 && histogram[size - 1] == 0) --size;
  UlpHistogramPart part;
  for (std::size_t place = 0; place < size; ++place) {
    part.upper_ulp.push_back(finite_or_huge(ulp_upper_end(place)));
    part.count.push_back(histogram[place]);
  }
  return part;
}

/// The decades that are not empty.
ConditionPart part_of(const ConditionTable& table) {
  ConditionPart part;
  double from = 1;
  for (const ConditionDecade& decade : table) {
    if (decade.count > 0) {
      part.condition_from.push_back(from);
      part.count.push_back(decade.count);
      part.median_rel.push_back(finite_or_huge(decade.median_relative));
      part.max_rel.push_back(finite_or_huge(decade.max_relative));
      part.median_backward_error.push_back(finite_or_huge(decade.median_backward));
    }
    from *= 10;
  }
  return part;
}

ProductCheck check_of(const ProductErrors& errors) {
  ProductCheck check{.smape_pct = finite_or_huge(errors.smape_pct),
                     .smape_common_pct = finite_or_huge(errors.smape_common_pct),
                     .relative_frobenius = finite_or_huge(errors.relative_frobenius),
                     .max_rel = finite_or_huge(errors.max_relative),
                     .backward_error = part_of(errors.backward_error),
                     .backward_error_mean = finite_or_huge(errors.mean_backward_error),
                     .normwise_backward_error = finite_or_huge(errors.normwise_backward_error),
                     .signed_bias = finite_or_huge(errors.signed_bias),
                     .max_ulp = finite_or_huge(errors.max_ulp),
                     .ulp_histogram = part_of(errors.ulp_histogram),
                     .condition = part_of(errors.condition),
                     .condition_geomean = errors.condition_geomean,
                     .by_condition = part_of(errors.by_condition),
                     .bound_ratio = finite_or_huge(errors.bound_ratio),
                     .compared = errors.compared,
                     .beyond_bound = errors.beyond_bound,
                     .non_finite = errors.non_finite,
                     .overflows = errors.overflows,
                     .underflows = errors.underflows};
  if (errors.smape_fp32_pct) check.smape_fp32_pct = finite_or_huge(*errors.smape_fp32_pct);
  return check;
}

/// The measures, the worst element and the reason why C is wrong; `locate` returns the place of a
/// row of A.
template <class Locate>
CheckedResult judged(const ProductErrors& errors, Locate locate) {
  CheckedResult result{check_of(errors), ""};
  if (errors.compared == 0) return result;

  const auto& worst = errors.worst;
  const std::string tile = locate(worst.row);
  result.check->worst = {.row = worst.row,
                         .col = worst.col,
                         .expected = finite_or_huge(worst.expected),
                         .computed = number_or_text(worst.computed),
                         .bound = finite_or_huge(worst.bound),
                         .tile = tile};
  if (!errors.ok())
    result.reason = fmt::format(
        "{} of {} elements are beyond the error bound; worst: C[{}][{}] is {:.9g}, not {:.9g} "
        "(bound {:.3g}), in {}",
        errors.beyond_bound + errors.non_finite, errors.compared, worst.row, worst.col,
        worst.computed, worst.expected, worst.bound, tile);
  return result;
}

/// The place of a row of an A that is not packed, for judged().
auto place_of_row(const CsrMatrix& a) {
  return [&a](std::int64_t row) {
    return fmt::format("row {} of A, {} nonzeros", row, a.row_length(row));
  };
}

/// The reason why the arrays are no matrix of that shape; empty when they are one.
std::string matrix_fault(const CsrMatrix& c, std::int32_t rows, std::int32_t cols) {
  if (c.rows != rows || c.cols != cols)
    return fmt::format("C is {} x {}, not {} x {}", c.rows, c.cols, rows, cols);
  try {
    validate(c);
  } catch (const Error& error) {
    return fmt::format("C is no valid matrix: {}", error.what());
  }
  return "";
}

}  // namespace

CheckedResult check_result(const CsrMatrix& a, const DenseMatrix& b, const DenseMatrix& c,
                           const Computation& computation, bool against_fp32,
                           const SpmmTruth* known) {
  const Sums sums{computation.kernel.arithmetic(), computation.kernel.terms_per_row(computation.a),
                  computation.rows, computation.generation, largest_finite(b.values)};
  const auto locate = [&](std::int64_t row) {
    const auto old_of_new = computation.rows.old_of_new();
    const auto place = std::ranges::find(old_of_new, static_cast<std::int32_t>(row));
    return computation.a.locate(static_cast<std::int32_t>(place - old_of_new.begin()));
  };
  return judged(compare_spmm(a, b, c, bound_of(a, sums), against_fp32, known), locate);
}

CheckedResult check_result(const SparseComputation& computation, const CsrMatrix& c,
                           bool against_fp32) {
  const CsrMatrix &a = computation.a, &b = computation.b;
  if (const std::string fault = matrix_fault(c, a.rows, b.cols); !fault.empty()) return {{}, fault};
  const SpgemmKernel& kernel = computation.kernel;
  const Sums sums{kernel.arithmetic_of(a, b), kernel.terms_per_row(a, b),
                  Permutation::identity(a.rows), computation.generation, largest_finite(b.values)};
  if (computation.mask != nullptr) {
    const CsrMatrix& mask = *computation.mask;
    if (!std::ranges::equal(c.row_offsets, mask.row_offsets) ||
        !std::ranges::equal(c.col_indices, mask.col_indices))
      return {{}, "C has another pattern than its mask"};
    return judged(compare_masked_spgemm(a, b, c, bound_of(a, sums), against_fp32), place_of_row(a));
  }
  const SpgemmErrors errors = compare_spgemm(a, b, c, bound_of(a, sums), against_fp32);
  CheckedResult result = judged(errors.values, place_of_row(a));
  result.check->missing = errors.missing;
  result.check->extra = errors.extra;
  if (errors.extra > 0 || (errors.missing > 0 && kernel.keeps_zeros()))
    result.reason += fmt::format("{}C has another pattern: {} cells are missing, {} are extra",
                                 result.reason.empty() ? "" : "; ", errors.missing, errors.extra);
  return result;
}

CheckedResult check_result(const SampledComputation& computation, const CsrMatrix& s,
                           bool against_fp32) {
  const auto& [kernel, a, x, y, generation] = computation;
  const ProductErrors errors =
      compare_sddmm(a, {x, y, kernel.scales_by_a()}, s, bound_of(computation), against_fp32);
  return judged(errors, place_of_row(a));
}

namespace {

/// Calls visit(column, value of c or null, value of expected or null) for the cells of a row that
/// either matrix has, by ascending column.
template <class Visit>
void for_each_cell(const CsrMatrix& c, const CsrMatrix& expected, std::int64_t row, Visit visit) {
  const auto cols = c.row_cols(row), expected_cols = expected.row_cols(row);
  const auto values = c.row_values(row), expected_values = expected.row_values(row);
  std::size_t i = 0, j = 0;
  while (i < cols.size() || j < expected_cols.size()) {
    const bool here = j == expected_cols.size() || (i < cols.size() && cols[i] <= expected_cols[j]);
    const bool there =
        i == cols.size() || (j < expected_cols.size() && expected_cols[j] <= cols[i]);
    visit(here ? cols[i] : expected_cols[j], here ? &values[i] : nullptr,
          there ? &expected_values[j] : nullptr);
    i += here;
    j += there;
  }
}

NumberOrText value_or_absent(const float* value) {
  if (value == nullptr) return "absent";
  return number_or_text(*value);
}

std::string other_extents(std::int64_t rows, std::int32_t cols, const CsrMatrix& matrix) {
  return fmt::format("unpacked it is {} x {}, not {} x {}", rows, cols, matrix.rows, matrix.cols);
}

/// The first difference between unpacked rows and the same ones of the matrix, from `first_row` on.
std::string difference(const CsrMatrix& unpacked, const CsrMatrix& rows, std::int64_t first_row) {
  if (unpacked == rows) return "";
  for (std::int32_t row = 0; row < rows.rows; ++row) {
    const auto cols = unpacked.row_cols(row), expected = rows.row_cols(row);
    if (!std::ranges::equal(cols, expected))
      return fmt::format("unpacked, row {} has other columns: {} instead of {} nonzeros",
                         first_row + row, cols.size(), expected.size());
    const auto values = unpacked.row_values(row), right = rows.row_values(row);
    for (std::size_t k = 0; k < cols.size(); ++k)
      if (std::bit_cast<std::uint32_t>(values[k]) != std::bit_cast<std::uint32_t>(right[k]))
        return fmt::format("unpacked, row {}, column {} holds {}, not {}", first_row + row, cols[k],
                           values[k], right[k]);
  }
  return "unpacked it is another matrix";
}

}  // namespace

BitComparison compare_bits(const CsrMatrix& c, const CsrMatrix& expected) {
  require(c.rows == expected.rows && c.cols == expected.cols, "C is {} x {}, its emulation {} x {}",
          c.rows, c.cols, expected.rows, expected.cols);
  BitComparison bits;
  for (std::int64_t row = 0; row < c.rows; ++row)
    for_each_cell(c, expected, row, [&](std::int32_t col, const float* x, const float* y) {
      ++bits.compared;
      if (x && y && std::bit_cast<std::uint32_t>(*x) == std::bit_cast<std::uint32_t>(*y)) return;
      if (bits.different++ == 0) bits.first = {row, col, value_or_absent(x), value_or_absent(y)};
    });
  return bits;
}

BitComparison compare_bits(const DenseMatrix& c, const DenseMatrix& expected) {
  require(c.rows == expected.rows && c.cols == expected.cols, "C is {} x {}, its emulation {} x {}",
          c.rows, c.cols, expected.rows, expected.cols);
  constexpr std::int64_t kGrain = 1 << 20;
  struct Part {
    std::int64_t different = 0;
    std::size_t first = 0;
  };
  std::vector<Part> parts((c.values.size() + kGrain - 1) / kGrain);
  parallel_for(std::ssize(c.values), kGrain, [&](std::int64_t begin, std::int64_t end) {
    const auto at = static_cast<std::size_t>(begin);
    const auto bytes = static_cast<std::size_t>(end - begin) * sizeof(float);
    if (std::memcmp(c.values.data() + at, expected.values.data() + at, bytes) == 0) return;
    Part& part = parts[at / kGrain];
    for (std::size_t i = at; i < static_cast<std::size_t>(end); ++i)
      if (std::bit_cast<std::uint32_t>(c.values[i]) !=
              std::bit_cast<std::uint32_t>(expected.values[i]) &&
          part.different++ == 0)
        part.first = i;
  });
  std::int64_t different = 0;
  std::size_t first = 0;
  for (const Part& part : parts) {
    if (different == 0) first = part.first;
    different += part.different;
  }
  BitComparison bits{static_cast<std::int64_t>(c.values.size()), different, {}};
  const auto place = static_cast<std::int64_t>(first);
  if (different > 0)
    bits.first = {place / c.cols, place % c.cols, number_or_text(c.values[first]),
                  number_or_text(expected.values[first])};
  return bits;
}

LaunchOutput read_output(std::span<const float> memory, std::size_t guard, std::int64_t rows,
                         std::int64_t cols) {
  const auto size = static_cast<std::size_t>(rows * cols);
  require(memory.size() == size + 2 * guard,
          "{} elements cannot be {} x {} between two guards of {}", memory.size(), rows, cols,
          guard);
  const auto poisoned = [](float x) { return std::bit_cast<std::uint32_t>(x) == kPoison; };
  const auto inside = memory.subspan(guard, size);
  LaunchOutput output{.guards_intact = std::ranges::all_of(memory.first(guard), poisoned) &&
                                       std::ranges::all_of(memory.last(guard), poisoned)};
  output.unwritten = std::ranges::count_if(inside, poisoned);
  output.c.rows = rows;
  output.c.cols = cols;
  output.c.values.assign(inside.begin(), inside.end());
  return output;
}

std::string launch_fault(std::int64_t unwritten, bool guards_intact,
                         const std::optional<BitComparison>& bits) {
  std::vector<std::string> faults;
  if (!guards_intact) faults.push_back("the kernel wrote outside C");
  if (unwritten > 0)
    faults.push_back(fmt::format("{} elements of C were never written", unwritten));
  if (bits && bits->different > 0) {
    const DifferentElement& first = bits->first.value();
    faults.push_back(fmt::format(
        "{} of {} elements differ from the emulation in their bits; first: row {}, column {} of C "
        "as the kernel orders it is {}, not {}",
        bits->different, bits->compared, first.row, first.col, to_json(first.computed).dump(),
        to_json(first.expected).dump()));
  }
  return fmt::format("{}", fmt::join(faults, "; "));
}

std::string round_trip_fault(const PackedMatrix& packed, const CsrMatrix& matrix) {
  std::string fault;
  std::int64_t row = 0;
  unpack_parts(packed, nonzeros_of_part(matrix.nnz()), [&](const CsrMatrix& unpacked) {
    const std::int64_t end = row + unpacked.rows;
    if (fault.empty() && (unpacked.cols != matrix.cols || end > matrix.rows))
      fault = other_extents(end, unpacked.cols, matrix);
    if (fault.empty()) {
      const auto first = static_cast<std::int32_t>(row), last = static_cast<std::int32_t>(end);
      fault = difference(unpacked, rows_between(matrix, first, last), row);
      if (unpacked.rows < matrix.rows) give_back_rows(matrix, first, last);
    }
    row = end;
  });
  return fault.empty() && row != matrix.rows ? other_extents(row, matrix.cols, matrix) : fault;
}

}  // namespace tessera
