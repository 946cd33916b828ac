// How much precision tensor cores give to FP32 operands: as they are converted, split into parts
// whose products are summed, scaled into range, or promoted to FP32 registers on the way.
//
// An operand is split into part 0, its conversion, part 1, the conversion of what is left, and so
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

/// One MMA of a chunk (as many products as an MMA is deep): parts of the operands, the accumulator
/// it adds to, and what that holds before.
struct ChunkMma {
  enum class Start {
    kContinue,  // what it held
    kResidual,  // minus accumulator 0: the sum is what accumulator 0 lost when it was truncated
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
  float part_scale = 1;             // part 1 is scaled by it, and so is accumulator 1
  std::vector<ChunkMma> mmas = {};  // of a chunk, in order
  int promote = 0;                  // chunks between additions to FP32 registers; 0: never
  int depth = 8;                    // products of an MMA that suit it
  bool equilibrate = false;         // rows of A and columns of B scaled by powers of two
  double input_error = 0;           // as if each operand were off by this, relatively
};

/// What a kernel with TF32 operands does with each of them: rounds it, leaves it to be cut off, or
/// splits it into two parts for three MMAs.
enum class Tf32Precision { kRounded, kRaw, kSplit };

/// Of "tf32", "tf32_raw", "tf32x3", "tf32x3_promoted".
Tf32Precision tf32_precision(std::string_view name);

constexpr int kMaxParts = 3;

/// FADD: FP32 to nearest; the NaN it makes of NaNs and of opposite infinities is always the same.
float add_on_gpu(float x, float y);

/// The parts of one operand; those a precision has none of are zero.
using Parts = std::array<float, kMaxParts>;

Parts split(float value, const Precision& precision);

/// tf32, tf32_raw, fp16, fp16_scaled, bf16, tf32x3, tf32x3_promoted, tf32x7, fp16x2.
const std::vector<Precision>& precisions();

/// Throws an Error with the nearest name for an unknown one.
const Precision& find_precision(std::string_view name);

/// The same with another number of chunks between promotions; -1: its own. Throws an Error where
/// the precision rests on its own number.
Precision find_precision(std::string_view name, std::int64_t promote);

/// "promote", a parameter of kernels that have a precision.
ParamSpec promote_param();

/// B, converted, split and scaled as a precision asks for.
class PreparedB {
 public:
  PreparedB(const DenseMatrix& b, const Precision& precision);

  const MmaOperand& part(int index) const { return parts_[static_cast<std::size_t>(index)]; }
  /// Exponents of the powers of two its columns were multiplied by; empty when they were not.
  const std::vector<int>& column_scales() const { return scales_; }

 private:
  std::vector<int> scales_;        // [cols] or empty
  std::vector<MmaOperand> parts_;  // [precision.parts]
};

/// A nonzero of a row of A within a chunk: `position` is its place along the depth of the MMA,
/// which decides the step it belongs to. They ascend.
struct ChunkTerm {
  Parts value;
  std::int64_t b_row;
  int position;
};

/// One row of C while its chunks go by: its accumulators and what became of them. C comes in as
/// zeros and holds the result after finish(); a row's chunks without any nonzero may be left out
/// unless they count towards a promotion.
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
  std::vector<std::vector<float>> sums_;  // [accumulators][n]; none where c itself will do
  int chunks_ = 0;
  bool promoted_ = false;
};

/// A nonzero of a row of A.
struct RowTerm {
  float value;
  std::int64_t b_row;
};

/// One row of C = A B by chains of MMAs of that depth over the row's terms in their order; C comes
/// in as zeros. Bit for bit what a kernel with one warp for the row computes.
void multiply_row(const Precision& precision, const FusedStep& step, int depth,
                  std::span<const RowTerm> terms, const PreparedB& b, std::span<float> c);

}  // namespace tessera
