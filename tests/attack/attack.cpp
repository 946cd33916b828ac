#include "tests/attack/attack.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>
#include <vector>

#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"
#include "kernels/tensor_core/mma.hpp"
#include "oracle/spmm_oracle.hpp"

namespace tessera {
namespace {

struct Prepared {
  std::unique_ptr<SpmmKernel> kernel;
  std::unique_ptr<PackedMatrix> packed;
};

Prepared prepared(const AttackCase& given) {
  auto kernel = Registry<SpmmKernel>::instance().make(given.choice.kernel, given.choice.params);
  auto packed =
      Registry<Format>::instance().make(kernel->format(), given.choice.format)->pack(given.a);
  return {std::move(kernel), std::move(packed)};
}

/// The type of C in memory.
ElementType stored_c(const AttackCase& given) {
  return Registry<SpmmKernel>::instance()
      .make(given.choice.kernel, given.choice.params)
      ->arithmetic()
      .storage.c;
}

/// The places where IEEE arithmetic may give a NaN or an infinity that the truth has not: where a
/// partial sum may overflow, where an operand overflows its type, and, where tiles are multiplied
/// with their padding, in every element whose column of B has such an operand, which meets zeros.
/// Tensor cores do that, and the FP32 sums of kernels that say so.
class MaySpecial {
 public:
  MaySpecial(const AttackCase& given, const SpmmKernel& kernel)
      : given_(given), arithmetic_(kernel.arithmetic()), row_(given.a.rows), col_(given.b.cols) {
    for (std::int64_t k = 0; k < given.b.rows; ++k)
      for (std::int64_t j = 0; j < given.b.cols; ++j)
        if (std::isfinite(given.b.at(k, j)) &&
            std::abs(double{given.b.at(k, j)}) > largest_of(arithmetic_.storage.b))
          col_[j] = true;
    if (arithmetic_.sum == Arithmetic::Sum::kFp32 && !arithmetic_.multiplies_padding) return;
    bool any = false;
    for (std::int64_t i = 0; i < given.a.rows; ++i)
      for (const float value : given.a.row_values(i))
        if (overflows(value)) row_[i] = any = true;
    for (std::int64_t k = 0; k < given.b.rows; ++k)
      for (std::int64_t j = 0; j < given.b.cols; ++j)
        if (overflows(given.b.at(k, j))) col_[j] = any = true;
    // One scale for a whole matrix carries them everywhere.
    if (arithmetic_.sum == Arithmetic::Sum::kInteger && any) row_.assign(row_.size(), true);
  }

  bool operator()(std::int64_t i, std::int64_t j) const {
    if (row_[i] || col_[j]) return true;
    double magnitude = 0;  // of what is added up and finite
    for (std::int64_t k = given_.a.row_offsets[i]; k < given_.a.row_offsets[i + 1]; ++k) {
      const float a = given_.a.values[k], b = given_.b.at(given_.a.col_indices[k], j);
      // B may vanish in its type, and an infinity of A then meets a zero.
      if (std::isinf(a) && b != 0 && rounded_to(arithmetic_.storage.b, b) == 0) return true;
      const double term = double{a} * b;
      if (std::isfinite(term)) magnitude += std::abs(term);
    }
    // Rounded operands are at most 2^-7 larger, and split ones add up to less than 2.1 |A||B|.
    const double growth = arithmetic_.mmas_per_chunk > 1 ? 2.2 : 1.02;
    return magnitude * growth >= largest_of(arithmetic_.storage.c);
  }

 private:
  bool overflows(float value) const {
    if (!std::isfinite(value)) return true;
    if (arithmetic_.sum != Arithmetic::Sum::kTensorCore || arithmetic_.equilibrated) return false;
    const NumberFormat format = operand_format(arithmetic_.type);
    // The largest number of the type: its exponents are symmetric, up to 1 - min_exponent.
    return std::abs(double{value}) >
           std::ldexp(2 - std::ldexp(1.0, -format.fraction_bits), 1 - format.min_exponent);
  }

  const AttackCase& given_;
  const Arithmetic arithmetic_;
  std::vector<bool> row_, col_;
};

/// C with the truth in place of each NaN and infinity that may stand there.
DenseMatrix excused(const AttackCase& given, const SpmmKernel& kernel, DenseMatrix c) {
  const MaySpecial may_be_special(given, kernel);
  const TrueRows truth = spmm_fp64(given.a, given.b, 0, given.a.rows);
  for (std::int64_t i = 0; i < c.rows; ++i)
    for (std::int64_t j = 0; j < c.cols; ++j)
      if (!std::isfinite(c.at(i, j)) && may_be_special(i, j))
        c.at(i, j) = static_cast<float>(truth.product[i * c.cols + j]);
  return c;
}

/// The reason why A B is wrong; empty when it is right.
std::string fault_of_product(const AttackCase& given, const Prepared& with, const DenseMatrix& c) {
  if (c.rows != given.a.rows || c.cols != given.b.cols)
    return fmt::format("A B is {} x {}, not {} x {}", c.rows, c.cols, given.a.rows, given.b.cols);
  const Permutation rows = Permutation::identity(given.a.rows);
  return check_result(given.a, given.b, excused(given, *with.kernel, c),
                      {*with.kernel, *with.packed, rows, given.generation})
      .reason;
}

/// |A| |B|, which parts of a sum may add up to whatever the sum is. [rows of A * n]
std::vector<double> magnitudes(const AttackCase& given) {
  std::vector<double> sums(static_cast<std::size_t>(given.a.rows * given.b.cols));
  for (std::int64_t i = 0; i < given.a.rows; ++i)
    for (std::int64_t k = given.a.row_offsets[i]; k < given.a.row_offsets[i + 1]; ++k)
      for (std::int64_t j = 0; j < given.b.cols; ++j)
        sums[i * given.b.cols + j] +=
            std::abs(double{given.a.values[k]} * given.b.at(given.a.col_indices[k], j));
  return sums;
}

/// The reason why alpha A B + beta C differs from fp64 by more than its roundings: two and that to
/// C's type.
std::string fault_of_scaling(const AttackCase& given, ElementType type, const DenseMatrix& product,
                             const DenseMatrix& c) {
  const DenseMatrix old_c = stored_as(type, given.old_c());
  // Two parts of A B and beta C take six roundings, of which four at most count for each of them,
  // and additions in memory flush what is subnormal. Rounded operands are at most 2^-10 larger.
  const bool in_parts = adds_parts_to_c(given.choice);
  const std::vector<double> parts = in_parts ? magnitudes(given) : std::vector<double>();
  const double roundings = in_parts ? 1.01 * 0x1p-22 : 0x1p-23;
  const double flushed = in_parts ? 6 * 0x1p-126 * (1 + std::abs(given.scaling.alpha)) : 0;
  for (std::size_t i = 0; i < c.values.size(); ++i) {
    const double sum = double{given.scaling.alpha} * product.values[i];
    const double old = given.scaling.beta == 0 ? 0.0 : double{given.scaling.beta} * old_c.values[i];
    const double added =
        in_parts ? 1.02 * std::abs(double{given.scaling.alpha}) * parts[i] : std::abs(sum);
    const double size = added + std::abs(old), exact = sum + old;
    // What is rounded to C's type has grown by two roundings, 1.01 at most.
    const double allowed = (roundings + 1.01 * rounding_error(type)) * size + 0x1p-148 +
                           underflow_error(type) + flushed;
    const bool may_overflow = size + allowed > largest_of(type);
    // Two finite parts that overflow together need not do so after alpha.
    if (in_parts && std::isinf(product.values[i]) && std::isfinite(parts[i]) &&
        1.02 * parts[i] > largest_of(type))
      continue;
    const bool may_meet_another = in_parts && may_overflow;  // infinity, of the other sign
    const bool right = std::isnan(exact)   ? std::isnan(c.values[i])
                       : std::isinf(exact) ? c.values[i] == exact ||
                                                 (may_meet_another && !std::isfinite(c.values[i]))
                       : std::isfinite(c.values[i]) ? std::abs(c.values[i] - exact) <= allowed
                                                    : may_overflow;
    if (!right) return fmt::format("element {} scaled is {}, not {}", i, c.values[i], exact);
  }
  return "";
}

/// `c` against the nearest of the results: an element that has the bits of any is right.
BitComparison compare_with_any(const DenseMatrix& c, const std::vector<DenseMatrix>& results) {
  DenseMatrix expected = results.front();
  for (const DenseMatrix& result : results)
    for (std::size_t i = 0; i < c.values.size(); ++i)
      if (std::bit_cast<std::uint32_t>(c.values[i]) ==
          std::bit_cast<std::uint32_t>(result.values[i]))
        expected.values[i] = result.values[i];
  return compare_bits(c, expected);
}

std::string fault_of_launch(const AttackCase& given, const Prepared& with,
                            const LaunchOutput& output, const std::optional<DenseMatrix>& product) {
  std::optional<BitComparison> bits;
  const bool has_bits = product && given.choice.emulated;
  if (has_bits) bits = compare_with_any(output.c, scaled_products(given, *product));
  std::string fault = launch_fault(output.unwritten, output.guards_intact, bits);
  if (fault.empty() && !has_bits && given.scaling == Scaling{})
    fault = fault_of_product(given, with, output.c);
  return fault;
}

/// A and B without the rows, columns, nonzeros and columns of B for which a predicate is false.
template <class KeepRow, class KeepCol, class KeepCell, class KeepN>
AttackCase selected(const AttackCase& from, KeepRow keep_row, KeepCol keep_col, KeepCell keep_cell,
                    KeepN keep_n) {
  std::vector<std::int32_t> new_col(from.a.cols, -1);
  std::int32_t rows = 0, cols = 0;
  std::int64_t n = 0;
  for (std::int32_t j = 0; j < from.a.cols; ++j)
    if (keep_col(j)) new_col[j] = cols++;
  for (std::int64_t j = 0; j < from.b.cols; ++j) n += keep_n(j);
  std::vector<std::int64_t> offsets{0};
  std::vector<std::int32_t> indices;
  std::vector<float> values;
  for (std::int32_t i = 0; i < from.a.rows; ++i) {
    if (!keep_row(i)) continue;
    for (std::int64_t k = from.a.row_offsets[i]; k < from.a.row_offsets[i + 1]; ++k) {
      if (new_col[from.a.col_indices[k]] < 0 || !keep_cell(k)) continue;
      indices.push_back(new_col[from.a.col_indices[k]]);
      values.push_back(from.a.values[k]);
    }
    offsets.push_back(std::ssize(indices));
    ++rows;
  }
  AttackCase to = from;
  to.a = {rows, cols, std::move(offsets), std::move(indices), std::move(values)};
  to.b = DenseMatrix(cols, n);
  std::size_t place = 0;
  for (std::int64_t k = 0; k < from.b.rows; ++k)
    for (std::int64_t j = 0; j < from.b.cols; ++j)
      if (new_col[k] >= 0 && keep_n(j)) to.b.values[place++] = from.b.at(k, j);
  return to;
}

class Shrinker {
 public:
  Shrinker(AttackCase failing, const Attacked& kernels, int attempts)
      : best_(std::move(failing)),
        kernels_(kernels),
        fault_(attack(best_, kernels).fault),
        left_(attempts) {}

  AttackCase run() {
    const auto all = [](std::int64_t) { return true; };
    for (bool smaller = true; smaller && left_ > 0;) {
      smaller = false;
      smaller |= parts([&] { return best_.a.rows; }, 1,
                       [&](auto keep) { return selected(best_, keep, all, all, all); });
      smaller |= parts([&] { return best_.b.cols; }, 1,
                       [&](auto keep) { return selected(best_, all, all, all, keep); });
      smaller |= parts([&] { return best_.a.nnz(); }, 0,
                       [&](auto keep) { return selected(best_, all, all, keep, all); });
      smaller |= parts([&] { return best_.a.cols; }, 1,
                       [&](auto keep) { return selected(best_, all, keep, all, all); });
      smaller |= simpler_choice();
    }
    ones([&] { return best_.a.nnz(); },
         [&](auto keep) {
           AttackCase to = best_;
           std::vector<float> values(to.a.values.begin(), to.a.values.end());
           for (std::size_t k = 0; k < values.size(); ++k) values[k] = keep(k) ? values[k] : 1.0f;
           to.a.values = std::move(values);
           return to;
         });
    ones([&] { return std::ssize(best_.b.values); },
         [&](auto keep) {
           AttackCase to = best_;
           for (std::size_t k = 0; k < to.b.values.size(); ++k)
             if (!keep(k)) to.b.values[k] = 1;
           return to;
         });
    return best_;
  }

 private:
  bool still_fails(const AttackCase& candidate) {
    if (left_-- <= 0) return false;
    try {
      return attack(candidate, kernels_).fault == fault_;
    } catch (const Error&) {  // parameters that the kernel does not take
      return false;
    }
  }

  bool take(AttackCase candidate) {
    if (!still_fails(candidate)) return false;
    best_ = std::move(candidate);
    return true;
  }

  /// Leaves out parts of what count() counts, halves first, while the case fails and `least`
  /// remain.
  template <class Count, class Without>
  bool parts(Count count, std::int64_t least, Without without) {
    bool smaller = false;
    for (std::int64_t size = count() - least; size > 0; size /= 2) {
      for (std::int64_t begin = 0; begin < count() && count() > least && left_ > 0;) {
        const std::int64_t end = std::min<std::int64_t>(begin + size, count());
        const auto keep = [=](std::int64_t place) { return place < begin || place >= end; };
        if (count() - (end - begin) >= least && take(without(keep)))
          smaller = true;
        else
          begin = end;
      }
    }
    return smaller;
  }

  /// The same for values, which stay in their places: each part is tried once.
  template <class Count, class Without>
  void ones(Count count, Without without) {
    for (std::int64_t size = count(); size > 0; size /= 2)
      for (std::int64_t begin = 0; begin < count() && left_ > 0; begin += size)
        take(without([=](std::int64_t place) { return place < begin || place >= begin + size; }));
  }

  bool simpler_choice() {
    bool simpler = false;
    // Its default depends on the GPU, and with it the order of its sums.
    const bool keeps_params = adds_parts_to_c(best_.choice);
    for (Params::Given Choice::*part : {&Choice::params, &Choice::format}) {
      const Params::Given given = keeps_params ? Params::Given() : best_.choice.*part;
      for (const auto& [name, value] : given) {
        AttackCase to = best_;
        (to.choice.*part).erase(name);
        simpler |= take(std::move(to));
      }
    }
    if (best_.scaling != Scaling{}) {
      AttackCase to = best_;
      to.scaling = {};
      simpler |= take(std::move(to));
    }
    return simpler;
  }

  AttackCase best_;
  const Attacked& kernels_;
  const std::string fault_;
  int left_;
};

}  // namespace

DenseMatrix emulated(const AttackCase& given) {
  const Prepared with = prepared(given);
  return with.kernel->emulate(*with.packed, given.b, find_generation(given.generation));
}

std::vector<DenseMatrix> scaled_products(const AttackCase& given, const DenseMatrix& product) {
  if (given.scaling == Scaling{}) return {stored_as(stored_c(given), product)};
  const Prepared with = prepared(given);
  return with.kernel->emulate_scaled(*with.packed, given.b, find_generation(given.generation),
                                     given.scaling, given.old_c());
}

std::function<std::optional<GpuHalf>()>& gpu_half() {
  static std::function<std::optional<GpuHalf>()> half = [] { return std::optional<GpuHalf>(); };
  return half;
}

Attacked registered_kernels() {
  Attacked kernels{emulated};
  if (const auto gpu = gpu_half()()) {
    kernels.launch = gpu->launch;
    kernels.generation = gpu->generation;
  }
  return kernels;
}

Verdict attack(const AttackCase& asked, const Attacked& kernels) {
  AttackCase given = asked;
  if (kernels.launch) given.generation = kernels.generation;
  Registry<SpmmKernel>::instance().make(given.choice.kernel, given.choice.params);
  Verdict verdict;
  const auto found = [&](const char* fault, const std::string& reason) {
    if (!reason.empty()) verdict.fault = fault, verdict.reason = reason;
    return !reason.empty();
  };
  const char* step = "packing";
  try {
    const Prepared with = prepared(given);
    if (found("round trip", round_trip_fault(*with.packed, given.a))) return verdict;

    step = "emulation";
    std::optional<DenseMatrix> product;
    try {
      product = kernels.emulate(given);
    } catch (const Unsupported&) {  // the order of its sums is not known
    }
    verdict.compared = product.has_value();
    const ElementType type = with.kernel->arithmetic().storage.c;
    if (product && found("value", fault_of_product(given, with, stored_as(type, *product))))
      return verdict;
    if (product)
      for (const DenseMatrix& c : kernels.scale(given, *product))
        if (found("scaling", fault_of_scaling(given, type, *product, c))) return verdict;

    if (!kernels.launch) return verdict;
    step = "launch";
    const LaunchOutput output = kernels.launch(given);
    verdict.compared = true;
    found("launch", fault_of_launch(given, with, output, product));
  } catch (const Unsupported&) {  // a case that the format or the device does not take
  } catch (const Error& error) {
    found(step, error.what());
  }
  return verdict;
}

AttackCase shrunk(const AttackCase& failing, const Attacked& kernels, int attempts) {
  return Shrinker(failing, kernels, attempts).run();
}

}  // namespace tessera
