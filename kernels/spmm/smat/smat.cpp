// SMaT's kernel (Okanovic et al., SC 2024; the poster's ladder of optimisations): blocks of BCSR
// times rows of B by m16n8k16 MMAs in FP16 or BF16, accumulated in FP32. `rung` selects a step of
// the ladder:
//
//   b    CUDA cores, block schedule: a warp has a strip (8 or 16 rows of a block row) and 8 or 32
//        columns; a lane reads an element of B once for all rows of a block, or for every fourth,
//        and takes four columns of A at once. FP32 multiply-adds of unrounded operands.
//   t    tensor cores, naive schedule: a warp has a strip and 8 or 32 columns; A is FP32 and
//        row-major; lanes convert it after loading it, once for every warp.
//   bt   both: a warp has a strip and up to 128 columns; the upload makes 16-bit fragments of A,
//        16 bytes a lane; rows of B go straight to the lanes that multiply them.
//   cbt  bt with cooperative loads: a warp copies whole rows of B to shared memory asynchronously,
//        one or more tiles of A ahead (stages = 2 is SMaT's double buffering).
//
// The poster's ladder begins below b with a naive kernel on CSR, which is the kernel csr_spmm here.
//
// A warp of 8 columns (warp_cols = 8) has 16 x 8 elements of C, and a block of 16 x 16 takes one
// MMA whose left operand is A: the poster's single instruction a block at N = 8. The authors' code
// (github.com/spcl/smat) cuts C into such parts at every N. Wider warps swap the operands (C^T =
// B^T A^T): a lane then has four columns, 16 bytes, of a row of B and of C.
//
// A sum is one chain in the order of A's columns: of fused multiply-adds in b, of MMAs (one for
// sixteen columns of a block) in the others. Every element of C is written once, without atomics.
// Values beyond the range of FP16 become infinite.
//
// BCSR does not distinguish padding from zeros: a zero of a block times a NaN or an infinity of B
// is NaN, though A has no nonzero there. Departures: a column of 8 or 16 rows without any nonzero
// is not multiplied at all (kernels/spmm/smat/tiles.hpp), which removes most such NaNs and reads
// fewer rows of B (padding = "read" is the original); blocks of any size; warps of 32 columns and
// more; B and C are FP32 in memory.

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
  rung = name == "b" ? Rung::kB : name == "t" ? Rung::kT : name == "bt" ? Rung::kBt : Rung::kCbt;
  const std::string& cols = params.text("warp_cols");
  warp_cols = cols == "auto" ? 0 : std::stoi(cols);
}

int smat::SmatOptions::cols_of_warp(std::int64_t n, int height) const {
  const int most = by_blocks() ? 4 * kGroupCols : kGroupCols;
  if (warp_cols != 0) return std::min(warp_cols, most);
  if (n <= kBlockCols && height == 2 * kMmaRows) return kBlockCols;
  int cols = kGroupCols;
  while (cols < n && cols < most) cols *= 2;
  return cols;
}

std::size_t smat::SmatOptions::instance(std::int64_t n, int height) const {
  const int cols = cols_of_warp(n, height);
  const std::size_t found = find_instance(rung, height, cols);
  require<Unsupported>(found < kInstances.size(),
                       "smat has no instance of this rung with strips of {} rows and {} columns of "
                       "C a warp",
                       height, cols);
  return found;
}

namespace {

class Smat final : public SpmmKernel {
 public:
  explicit Smat(SmatOptions options) : options_(std::move(options)) {}

  std::string format() const override { return Bcsr::kFormat; }
  int version() const override { return 4; }

  Arithmetic arithmetic() const override {
    if (!options_.on_tensor_cores()) return {.multiplies_padding = true};
    return {.sum = Arithmetic::Sum::kTensorCore,
            .type = type_of(options_.precision.conversion),
            .mma_depth = kDepth,
            .input_error = options_.precision.input_error};
  }

  std::vector<std::int64_t> terms_per_row(const PackedMatrix& packed) const override {
    const auto& a = packed_as<Bcsr>(packed);
    const Tiles tiles(a, options_.read_padding);
    std::vector<std::int64_t> terms(a.rows(), 0);
    for_each_strip(tiles, [&](std::int64_t strip) {
      const std::int64_t first = tiles.first_row(strip);
      for (const Tile& tile : tiles.of_strip(strip)) {
        for (int row = 0; row < tiles.num_rows(strip); ++row) {
          int nonzeros = 0;
          for (int k = 0; k < kDepth; ++k)
            if (tiles.cell(tile, row, k) != 0) ++nonzeros;
          terms[first + row] += options_.on_tensor_cores() ? std::min(nonzeros, 1) : nonzeros;
        }
      }
    });
    return terms;
  }

  DenseMatrix emulate(const PackedMatrix& packed, const DenseMatrix& b,
                      const Generation& generation) const override {
    const auto& a = packed_as<Bcsr>(packed);
    const Tiles tiles(a, options_.read_padding);
    DenseMatrix c(a.rows(), b.cols);
    if (!options_.on_tensor_cores()) {
      for_each_strip(tiles, [&](std::int64_t strip) { add_products(tiles, strip, b, c); });
      return c;
    }
    const FusedStep& step = generation.step(type_of(options_.precision.conversion));
    const PreparedB prepared(b, options_.precision);
    for_each_strip(tiles, [&](std::int64_t strip) { add_mmas(tiles, strip, step, prepared, c); });
    return c;
  }

  WorkDescription work(const PackedMatrix& packed, std::int64_t n) const override {
    const auto& a = packed_as<Bcsr>(packed);
    const auto tiles = std::make_shared<const Tiles>(a, options_.read_padding);
    return describe_work(a, tiles, options_, n);
  }

 private:
  /// The rows of a strip are visited together: their cells are in the same tiles.
  template <class Visit>
  static void for_each_strip(const Tiles& tiles, Visit visit) {
    parallel_for(tiles.num_strips(), 2, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t strip = begin; strip < end; ++strip) visit(strip);
    });
  }

  /// Adds the products of a strip on CUDA cores, a lane for each column.
  static void add_products(const Tiles& tiles, std::int64_t strip, const DenseMatrix& b,
                           DenseMatrix& c) {
    const int rows = tiles.num_rows(strip);
    const std::int64_t first = tiles.first_row(strip);
    for (const Tile& tile : tiles.of_strip(strip))
      for (int row = 0; row < rows; ++row)
        for (std::uint32_t cols = tile.cols; cols != 0; cols &= cols - 1) {
          const int k = std::countr_zero(cols);
          add_scaled_row(tiles.cell(tile, row, k), b.row(tile.b_row + k).data(),
                         c.row(first + row).data(), b.cols);
        }
    // The GPU has one NaN.
    for (int row = 0; row < rows; ++row)
      for (float& value : c.row(first + row))
        if (std::isnan(value)) value = std::bit_cast<float>(0x7fffffff);
  }

  /// Adds an MMA for each tile. Zeros of A are terms where B makes NaN of them.
  void add_mmas(const Tiles& tiles, std::int64_t strip, const FusedStep& step, const PreparedB& b,
                DenseMatrix& c) const {
    std::vector<RowChain> chains;
    for (int row = 0; row < tiles.num_rows(strip); ++row)
      chains.emplace_back(options_.precision, step, b, c.row(tiles.first_row(strip) + row));
    std::vector<ChunkTerm> terms;
    for (const Tile& tile : tiles.of_strip(strip)) {
      for (std::size_t row = 0; row < chains.size(); ++row) {
        terms.clear();
        for (std::uint32_t cols = tile.cols; cols != 0; cols &= cols - 1) {
          const int k = std::countr_zero(cols);
          const float value = tiles.cell(tile, static_cast<int>(row), k);
          if (value != 0 || !b.part(0).row_is_finite(tile.b_row + k))
            terms.push_back({split(value, options_.precision), tile.b_row + k, k});
        }
        chains[row].add(terms);
      }
    }
    for (RowChain& chain : chains) chain.finish();
  }

  SmatOptions options_;
};

const Register<SpmmKernel> entry{{
    .name = "smat",
    .summary = "BCSR blocks on FP16 tensor cores, a warp per block row and 128 columns (SMaT)",
    .params =
        {{"rung",
          std::string("cbt"),
          "step of SMaT's ladder: B block schedule, T tensor cores, C cooperative asynchronous "
          "loads",
          {"b", "t", "bt", "cbt"}},
         {"precision",
          std::string("fp16"),
          "type of the operands on tensor cores; rung b multiplies in FP32",
          {"fp16", "bf16"}},
         {"padding",
          std::string("skipped"),
          "rows of B that meet no nonzero of 8 or 16 rows of a block: skipped, or read",
          {"skipped", "read"}},
         {"warp_cols",
          std::string("auto"),
          "columns of C of a warp; 8: one MMA a block of 16 x 16, as in the paper; 64, 128: on "
          "rungs "
          "bt and cbt; auto: by the width of B, at most 128",
          {"auto", "8", "32", "64", "128"}},
         {"stages",
          std::int64_t{3},
          "tiles of A, with their rows of B, in a warp's shared memory on rung cbt; 2: double "
          "buffering",
          {},
          2,
          kMaxStages}},
    .make = [](const Params& params) { return std::make_unique<Smat>(SmatOptions(params)); },
}};

}  // namespace
}  // namespace tessera
