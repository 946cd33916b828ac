// The precisions of products of FP32 operands on tensor cores: operands are converted, split into
// parts whose products are summed, or scaled into range, and sums are promoted to FP32 registers.
//
// An operand is split into part 0, its conversion, part 1, the conversion of the remainder, and so
// on. Sources: Markidis et al., IPDPSW 2018 (splitting); Ootomo and Yokota, IJHPCA 36(4), 2022
// (correction terms scaled by 2^11, sums in FP32 registers); Mukunoki et al., ISC 2020; the
// residual step of tf32x7 is ours.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/base/matrix.hpp"
#include "formats/base/params.hpp"
#include "kernels/tensor_core/fused_rows.hpp"

namespace tessera {

/// One MMA of a chunk, whose products are those of the MMA's depth: the parts of the operands, the
/// accumulator that it adds to, and the value that the accumulator starts from.
struct ChunkMma {
  enum class Start {
    kContinue,  // its value so far
    kResidual,  // minus accumulator 0: the sum is what truncation removed from accumulator 0
  };
  int a_part = 0;
  int b_part = 0;
  int accumulator = 0;
  Start start = Start::kContinue;
};

struct Precision {
  std::string name;
  std::string summary;
  Conversion conversion = Conversion::kTf32;  // of every part
  int parts = 1;
  float part_scale = 1;             // factor of part 1 and of accumulator 1
  std::vector<ChunkMma> mmas = {};  // the MMAs of a chunk, in order
  int promote = 0;                  // chunks between additions to FP32 registers; 0: never
  int depth = 8;                    // the preferred depth of an MMA, in products
  bool equilibrate = false;         // rows of A and columns of B are scaled by powers of two
  double input_error = 0;           // equivalent relative error of each operand
};

/// The treatment of the operands of a TF32 kernel: rounded with ties away from zero or to even,
/// truncated by the MMA, or split into two parts for three MMAs.
enum class Tf32Precision { kRounded, kEven, kRaw, kSplit };

/// The treatment in the precision "tf32", "tf32_even", "tf32_raw", "tf32x3" or "tf32x3_promoted".
Tf32Precision tf32_precision(std::string_view name);

constexpr int kMaxParts = 3;

/// x + y as FADD computes it: FP32 to nearest, with one NaN for NaNs and opposite infinities.
float add_on_gpu(float x, float y);

/// The parts of one operand; parts beyond the precision's number are zero.
using Parts = std::array<float, kMaxParts>;

/// The parts of `value` in that precision.
Parts split(float value, const Precision& precision);

/// All precisions: tf32, tf32_even, tf32_raw, fp16, fp16_scaled, bf16, tf32x3, tf32x3_promoted,
/// tf32x7, fp16x2.
const std::vector<Precision>& precisions();

/// The precision of that name. Throws an Error with the nearest name for an unknown one.
const Precision& find_precision(std::string_view name);

/// The precision with `promote` chunks between promotions, or with its own number for -1. Throws an
/// Error where the precision requires its own number.
Precision find_precision(std::string_view name, std::int64_t promote);

/// The parameter "promote" of kernels that have a precision.
ParamSpec promote_param();

/// B, converted, split and scaled as a precision requires.
class PreparedB {
 public:
  PreparedB(const DenseMatrix& b, const Precision& precision);

  const MmaOperand& part(int index) const { return parts_[static_cast<std::size_t>(index)]; }
  /// The exponents of the powers of two that scale the columns, [cols]; empty without scaling.
  const std::vector<int>& column_scales() const { return scales_; }

 private:
  std::vector<int> scales_;        // [cols] or empty
  std::vector<MmaOperand> parts_;  // [precision.parts]
};

/// A nonzero of a row of A within a chunk. `position` is its index along the depth of the MMA,
/// which determines its step; positions ascend.
struct ChunkTerm {
  Parts value;
  std::int64_t b_row;
  int position;
};

/// The sums of one row of C over its chunks. `c` holds zeros at first and the result after
/// finish(). Chunks without a nonzero of the row may be omitted unless they count towards a
/// promotion.
class RowChain {
 public:
  RowChain(const Precision& precision, const FusedStep& step, const PreparedB& b,
           std::span<float> c);

  void add(std::span<const ChunkTerm> terms);
  void finish();

 private:
  void run(const ChunkMma& mma, std::span<const ChunkTerm> terms, std::span<float> sum);
  void promote();

  const Precision* precision_;
  const FusedStep* step_;
  const PreparedB* b_;
  std::span<float> c_;
  std::vector<std::vector<float>> sums_;  // [accumulators][n]; empty where c itself suffices
  int chunks_ = 0;
  bool promoted_ = false;
};

/// A nonzero of a row of A.
struct RowTerm {
  float value;
  std::int64_t b_row;
};

/// One row of C = A B by chains of MMAs of that depth over the row's terms in their order, bit for
/// bit as a kernel with one warp for the row computes it. `c` holds zeros at first.
void multiply_row(const Precision& precision, const FusedStep& step, int depth,
                  std::span<const RowTerm> terms, const PreparedB& b, std::span<float> c);

}  // namespace tessera
