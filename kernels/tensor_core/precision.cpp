#include "kernels/tensor_core/precision.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "formats/base/check.hpp"
#include "formats/base/suggest.hpp"

namespace tessera {
namespace {

/// The exponent of the power of two that scales the largest magnitude into [1, 2).
int scale_of(float largest) {
  return largest > 0 && std::isfinite(largest) ? -std::ilogb(largest) : 0;
}

std::vector<int> column_scales_of(const DenseMatrix& b) {
  std::vector<float> largest(static_cast<std::size_t>(b.cols), 0.0f);
  for (std::int64_t i = 0; i < b.rows; ++i)
    for (std::int64_t j = 0; j < b.cols; ++j)
      largest[static_cast<std::size_t>(j)] =
          std::max(largest[static_cast<std::size_t>(j)], std::abs(b.at(i, j)));
  std::vector<int> scales;
  for (const float magnitude : largest) scales.push_back(scale_of(magnitude));
  return scales;
}

}  // namespace

const std::vector<Precision>& precisions() {
  using enum Conversion;
  constexpr auto kResidual = ChunkMma::Start::kResidual;
  // The small products come first: alignment to a large sum would drop them.
  static const std::vector<ChunkMma> one{{0, 0}}, three{{1, 0}, {0, 1}, {0, 0}};
  // Part 1 has the 11 bits below part 0's 11: each operand errs by 2^-22, as does the omitted
  // product.
  constexpr double kTwoParts = 0x3p-23;
  static const std::vector<Precision> all{
      {.name = "tf32",
       .summary = "TF32, rounded to nearest",
       .conversion = kTf32,
       .mmas = one,
       .input_error = relative_error(kTf32)},
      {.name = "tf32_even",
       .summary =
           "TF32, rounded to nearest even, by one instruction from compute capability 9.0 on",
       .conversion = kTf32Even,
       .mmas = one,
       .input_error = relative_error(kTf32Even)},
      {.name = "tf32_raw",
       .summary = "TF32, truncated by the MMA",
       .conversion = kTf32Raw,
       .mmas = one,
       .input_error = relative_error(kTf32Raw)},
      {.name = "fp16",
       .summary = "FP16 inputs, FP32 sums",
       .conversion = kFp16,
       .mmas = one,
       .depth = 16,
       .input_error = relative_error(kFp16)},
      {.name = "fp16_scaled",
       .summary = "FP16, rows of A and columns of B scaled by powers of two",
       .conversion = kFp16,
       .mmas = one,
       .depth = 16,
       .equilibrate = true,
       .input_error = relative_error(kFp16)},
      {.name = "bf16",
       .summary = "BF16 inputs, FP32 sums",
       .conversion = kBf16,
       .mmas = one,
       .depth = 16,
       .input_error = relative_error(kBf16)},
      {.name = "tf32x3",
       .summary = "two TF32 parts each, three MMAs, summed in the tensor core",
       .conversion = kTf32,
       .parts = 2,
       .mmas = three,
       .input_error = kTwoParts},
      {.name = "tf32x3_promoted",
       .summary = "two TF32 parts each, three MMAs, every chunk added in FP32 to nearest",
       .conversion = kTf32,
       .parts = 2,
       .mmas = three,
       .promote = 1,
       .input_error = kTwoParts},
      {.name = "tf32x7",
       .summary = "three TF32 parts each, which lose nothing, six MMAs, and a seventh for the part "
                  "that truncation removes from the sum of the first",
       .conversion = kTf32,
       .parts = 3,
       .mmas =
           {{0, 0, 0}, {0, 0, 1, kResidual}, {1, 1, 1}, {0, 2, 1}, {2, 0, 1}, {1, 0, 1}, {0, 1, 1}},
       .promote = 1,
       .depth = 4,  // with more, alignment would remove more of small products than FP32 does
       .input_error = 0x1p-32},
      {.name = "fp16x2",
       .summary = "two FP16 parts each, the second scaled by 2^11, three MMAs",
       .conversion = kFp16,
       .parts = 2,
       .part_scale = 0x1p11f,
       .mmas = {{0, 0, 0}, {1, 0, 1}, {0, 1, 1}},
       .promote = 1,
       .depth = 16,
       .input_error = kTwoParts},
  };
  return all;
}

const Precision& find_precision(std::string_view name) {
  std::vector<std::string> names;
  for (const Precision& precision : precisions()) {
    if (precision.name == name) return precision;
    names.push_back(precision.name);
  }
  throw Error(unknown_name_message("precision", name, names));
}

Precision find_precision(std::string_view name, std::int64_t promote) {
  Precision precision = find_precision(name);
  if (promote >= 0) precision.promote = static_cast<int>(promote);
  const auto is_residual = [](const ChunkMma& mma) {
    return mma.start == ChunkMma::Start::kResidual;
  };
  require(precision.promote == 1 || std::ranges::none_of(precision.mmas, is_residual),
          "{} corrects the truncation of a single chunk: promote has to be 1, not {}", name,
          precision.promote);
  return precision;
}

Tf32Precision tf32_precision(std::string_view name) {
  if (name == "tf32_raw") return Tf32Precision::kRaw;
  if (name == "tf32_even") return Tf32Precision::kEven;
  return name == "tf32" ? Tf32Precision::kRounded : Tf32Precision::kSplit;
}

ParamSpec promote_param() {
  return {"promote",
          std::int64_t{-1},
          "MMA chunks between additions to FP32 registers; 0: never, -1: the precision's own",
          {},
          -1,
          1 << 20};
}

Parts split(float value, const Precision& precision) {
  Parts parts{convert(value, precision.conversion)};
  float rest = value, scale = 1;
  for (std::size_t p = 1; p < static_cast<std::size_t>(precision.parts); ++p) {
    if (!std::isfinite(parts[p - 1])) break;
    rest -= parts[p - 1] / scale;  // exact
    scale *= precision.part_scale;
    parts[p] = convert(rest * scale, precision.conversion);
  }
  return parts;
}

PreparedB::PreparedB(const DenseMatrix& b, const Precision& precision) {
  if (precision.parts == 1 && !precision.equilibrate) {
    parts_.emplace_back(b, precision.conversion);
    return;
  }
  DenseMatrix scaled = b;
  if (precision.equilibrate) {
    scales_ = column_scales_of(b);
    for (std::int64_t i = 0; i < b.rows; ++i)
      for (std::int64_t j = 0; j < b.cols; ++j)
        scaled.at(i, j) = std::ldexp(b.at(i, j), scales_[static_cast<std::size_t>(j)]);
  }
  DenseMatrix part(b.rows, b.cols);
  for (int p = 0; p < precision.parts; ++p) {
    for (std::size_t i = 0; i < part.values.size(); ++i)
      part.values[i] = split(scaled.values[i], precision)[static_cast<std::size_t>(p)];
    parts_.emplace_back(part, precision.conversion);
  }
}

RowChain::RowChain(const Precision& precision, const FusedStep& step, const PreparedB& b,
                   std::span<float> c)
    : precision_(&precision), step_(&step), b_(&b), c_(c) {
  int accumulators = 0;
  for (const ChunkMma& mma : precision.mmas)
    accumulators = std::max(accumulators, mma.accumulator + 1);
  if (accumulators > 1 || precision.promote > 0)
    sums_.resize(static_cast<std::size_t>(accumulators), std::vector<float>(c.size(), 0.0f));
}

void RowChain::add(std::span<const ChunkTerm> terms) {
  for (const ChunkMma& mma : precision_->mmas) {
    const std::span<float> sum =
        sums_.empty() ? c_ : std::span<float>(sums_[static_cast<std::size_t>(mma.accumulator)]);
    if (mma.start == ChunkMma::Start::kResidual)
      std::ranges::transform(sums_[0], sum.begin(), [](float x) { return -x; });
    run(mma, terms, sum);
  }
  ++chunks_;
  if (precision_->promote > 0 && chunks_ % precision_->promote == 0) promote();
}

void RowChain::finish() {
  if (sums_.empty()) return;
  if (precision_->promote == 0 || chunks_ % precision_->promote != 0) promote();
}

/// Runs the steps of one MMA. Products with zeros of A add nothing: a step has only the terms whose
/// positions fall into it.
void RowChain::run(const ChunkMma& mma, std::span<const ChunkTerm> terms, std::span<float> sum) {
  for (std::size_t first = 0; first < terms.size();) {
    std::array<StepTerm, kMaxProducts> products;
    const int step = terms[first].position / step_->products;
    std::size_t count = 0;
    for (; first < terms.size() && terms[first].position / step_->products == step; ++first) {
      const ChunkTerm& term = terms[first];
      products[count++] = {term.value[static_cast<std::size_t>(mma.a_part)], term.b_row};
    }
    fused_step(*step_, {products.data(), count}, b_->part(mma.b_part), sum);
  }
}

float add_on_gpu(float x, float y) {
  const float sum = x + y;
  return std::isnan(sum) ? std::bit_cast<float>(0x7fffffffu) : sum;
}

/// c <- c + accumulators, in FP32 to nearest; without promotion c is still zero.
void RowChain::promote() {
  for (std::size_t j = 0; j < c_.size(); ++j) {
    float sum = sums_[0][j];
    if (sums_.size() > 1) sum += sums_[1][j] / precision_->part_scale;
    c_[j] = add_on_gpu(sum, promoted_ ? c_[j] : 0.0f);
  }
  for (auto& sum : sums_) std::ranges::fill(sum, 0.0f);
  promoted_ = true;
}

void multiply_row(const Precision& precision, const FusedStep& step, int depth,
                  std::span<const RowTerm> terms, const PreparedB& b, std::span<float> c) {
  int row_scale = 0;
  if (precision.equilibrate) {
    float largest = 0;
    for (const RowTerm& term : terms) largest = std::max(largest, std::abs(term.value));
    row_scale = scale_of(largest);
  }
  RowChain chain(precision, step, b, c);
  std::vector<ChunkTerm> chunk;
  for (std::size_t k0 = 0; k0 < terms.size(); k0 += static_cast<std::size_t>(depth)) {
    chunk.clear();
    const std::size_t end = std::min(terms.size(), k0 + static_cast<std::size_t>(depth));
    for (std::size_t k = k0; k < end; ++k)
      chunk.push_back({split(std::ldexp(terms[k].value, row_scale), precision), terms[k].b_row,
                       static_cast<int>(k - k0)});
    chain.add(chunk);
  }
  if (!terms.empty()) chain.finish();
  if (!precision.equilibrate) return;
  for (std::size_t j = 0; j < c.size(); ++j)
    c[j] = std::ldexp(c[j], -row_scale - b.column_scales()[j]);
}

}  // namespace tessera
