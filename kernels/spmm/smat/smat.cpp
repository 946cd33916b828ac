// SMaT's kernel (Okanovic et al., SC 2024; the poster's ladder of optimisations): blocks of BCSR
// times rows of B by m16n8k16 MMAs in FP16 or BF16, accumulated in FP32. `rung` is how much of it
// is there:
//
//   naive  CUDA cores: a warp has one row and 32 columns of C, a lane one column; it goes through
//          the columns of its blocks one by one. FP32 multiply-adds of unrounded operands.
//   b      CUDA cores, block schedule: a warp has a strip (8 or 16 rows of a block row) and 32
//          columns; an element of B is read once for all rows of a block.
//   t      tensor cores, naive schedule: a warp has a strip and 32 columns; A is FP32, row-major,
//          converted on the way in, and read again for every 32 columns.
//   bt     both: a warp has a strip and up to 128 columns; A comes as 16-bit fragments, 16 bytes a
//          lane, made when it is uploaded; rows of B go straight to the lanes that multiply them.
//   cbt    and cooperative loads: a warp copies whole rows of B to shared memory asynchronously,
//          one or more pieces of A ahead (stages = 2 is SMaT's double buffering).
//
// A sum is one chain in the order of A's columns: of fused multiply-adds in naive and b, of MMAs
// (one for sixteen columns of a block) in the others. Every element of C is written once, without
// atomics. Values beyond the range of FP16 become infinite, as the conversion has it.
//
// BCSR does not tell padding from zeros: a zero of a block times a NaN or an infinity of B is NaN,
// though A has no nonzero there. Departures: a column of 8 or 16 rows without any nonzero is not
// multiplied at all (kernels/spmm/smat/pieces.hpp), so that most such places cannot do that, and
// fewer rows of B are read: padding = "read" is the original; blocks of any size; operands are
// swapped.

#include "kernels/spmm/smat/smat.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "formats/base/parallel.hpp"
#include "formats/base/registry.hpp"
#include "kernels/spmm/scaled_row.hpp"
#include "kernels/spmm/smat/trace.hpp"
#include "kernels/spmm_kernel.hpp"

namespace tessera {

using namespace smat;

smat::SmatOptions::SmatOptions(const Params& params)
    : precision(find_precision(params.text("precision"))),
      read_padding(params.text("padding") == "read"),
      stages(static_cast<int>(params.integer("stages"))) {
  const std::string& name = params.text("rung");
  rung = name == "naive" ? Rung::kNaive
         : name == "b"   ? Rung::kB
         : name == "t"   ? Rung::kT
         : name == "bt"  ? Rung::kBt
                         : Rung::kCbt;
  const std::string& cols = params.text("warp_cols");
  warp_cols = cols == "auto" ? 0 : std::stoi(cols);
}

int smat::SmatOptions::cols_of_warp(std::int64_t n) const {
  if (!by_blocks()) return kGroupCols;
  if (warp_cols != 0) return warp_cols;
  if (n <= kGroupCols) return kGroupCols;
  return n <= 2 * kGroupCols ? 2 * kGroupCols : 4 * kGroupCols;
}

int smat::SmatOptions::registers(std::int64_t n, int height) const {
  const int wide = height / kMmaRows - 1;
  const int size = std::countr_zero(static_cast<unsigned>(cols_of_warp(n) / kGroupCols));
  constexpr int kBtOf[2][3] = {{64, 72, 96}, {64, 96, 144}},
                kCbtOf[2][3] = {{56, 72, 88}, {64, 88, 128}};
  switch (rung) {
    case Rung::kNaive:
      return 32;
    case Rung::kB:
      return wide == 0 ? 32 : 40;
    case Rung::kT:
      return 56;
    case Rung::kBt:
      return kBtOf[wide][size];
    case Rung::kCbt:
      break;
  }
  return kCbtOf[wide][size];
}

namespace {

class Smat final : public SpmmKernel {
 public:
  explicit Smat(SmatOptions choices) : choices_(std::move(choices)) {}

  std::string format() const override { return Bcsr::kFormat; }
  int version() const override { return 2; }

  Arithmetic arithmetic() const override {
    if (!choices_.on_tensor_cores()) return {};
    return {.sum = Arithmetic::Sum::kTensorCore,
            .type = type_of(choices_.precision.conversion),
            .mma_depth = kDepth,
            .input_error = choices_.precision.input_error};
  }

  std::vector<std::int64_t> terms_per_row(const PackedMatrix& packed) const override {
    const auto& a = packed_as<Bcsr>(packed);
    const Pieces pieces(a, choices_.read_padding);
    std::vector<std::int64_t> terms(a.rows(), 0);
    for (std::int64_t row = 0; row < a.rows(); ++row) {
      for (const Piece& piece : pieces.of_strip(pieces.strip_of(row))) {
        int nonzeros = 0;
        for (int k = 0; k < kDepth; ++k)
          if (pieces.cell(piece, pieces.row_in_strip(row), k) != 0) ++nonzeros;
        terms[row] += choices_.on_tensor_cores() ? std::min(nonzeros, 1) : nonzeros;
      }
    }
    return terms;
  }

  DenseMatrix emulate(const PackedMatrix& packed, const DenseMatrix& b,
                      const Generation& generation) const override {
    const auto& a = packed_as<Bcsr>(packed);
    const Pieces pieces(a, choices_.read_padding);
    DenseMatrix c(a.rows(), b.cols);
    if (!choices_.on_tensor_cores()) {
      for_each_row(a, [&](std::int64_t row) { add_products(pieces, row, b, c.row(row)); });
      return c;
    }
    const FusedStep& step = generation.step(type_of(choices_.precision.conversion));
    const PreparedB prepared(b, choices_.precision);
    for_each_row(a, [&](std::int64_t row) { add_mmas(pieces, row, step, prepared, c.row(row)); });
    return c;
  }

  WorkDescription work(const PackedMatrix& packed, std::int64_t n) const override {
    const auto& a = packed_as<Bcsr>(packed);
    const auto pieces = std::make_shared<const Pieces>(a, choices_.read_padding);
    return describe_work(a, pieces, choices_, n);
  }

 private:
  template <class Visit>
  static void for_each_row(const Bcsr& a, Visit visit) {
    parallel_for(a.rows(), 16, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) visit(row);
    });
  }

  /// A lane of the CUDA cores for each column.
  static void add_products(const Pieces& pieces, std::int64_t row, const DenseMatrix& b,
                           std::span<float> c) {
    for (const Piece& piece : pieces.of_strip(pieces.strip_of(row)))
      for (std::uint32_t cols = piece.cols; cols != 0; cols &= cols - 1) {
        const int k = std::countr_zero(cols);
        add_scaled_row(pieces.cell(piece, pieces.row_in_strip(row), k),
                       b.row(piece.b_row + k).data(), c.data(), b.cols);
      }
    // The GPU knows one NaN.
    for (float& value : c)
      if (std::isnan(value)) value = std::bit_cast<float>(0x7fffffff);
  }

  /// An MMA for each piece. Zeros of A take part where B makes a NaN of them.
  void add_mmas(const Pieces& pieces, std::int64_t row, const FusedStep& step, const PreparedB& b,
                std::span<float> c) const {
    RowChain chain(choices_.precision, step, b, c);
    std::vector<ChunkTerm> terms;
    for (const Piece& piece : pieces.of_strip(pieces.strip_of(row))) {
      terms.clear();
      for (std::uint32_t cols = piece.cols; cols != 0; cols &= cols - 1) {
        const int k = std::countr_zero(cols);
        const float value = pieces.cell(piece, pieces.row_in_strip(row), k);
        if (value != 0 || !b.part(0).row_is_finite(piece.b_row + k))
          terms.push_back({split(value, choices_.precision), piece.b_row + k, k});
      }
      chain.add(terms);
    }
    chain.finish();
  }

  SmatOptions choices_;
};

const Register<SpmmKernel> entry{{
    .name = "smat",
    .summary = "BCSR blocks on FP16 tensor cores, a warp per block row and 128 columns (SMaT)",
    .params =
        {{"rung",
          std::string("cbt"),
          "how much of SMaT: B block schedule, T tensor cores, C cooperative asynchronous loads",
          {"naive", "b", "t", "bt", "cbt"}},
         {"precision",
          std::string("fp16"),
          "type of the operands on tensor cores; naive and b multiply in FP32",
          {"fp16", "bf16"}},
         {"padding",
          std::string("skipped"),
          "rows of B that meet no nonzero of 8 or 16 rows of a block: skipped, or read",
          {"skipped", "read"}},
         {"warp_cols",
          std::string("auto"),
          "columns of C of a warp in bt and cbt; auto: as B has, at most 128",
          {"auto", "32", "64", "128"}},
         {"stages",
          std::int64_t{3},
          "pieces of A, with their rows of B, in a warp's shared memory in cbt; 2: double "
          "buffering",
          {},
          2,
          kMaxStages}},
    .make = [](const Params& params) { return std::make_unique<Smat>(SmatOptions(params)); },
}};

}  // namespace
}  // namespace tessera
