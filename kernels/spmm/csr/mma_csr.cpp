// Rows of a CSR matrix as chains of MMAs: the arithmetic of tensor cores without any tiling, for
// accuracy studies. There is no device half: a GPU would leave most of each MMA empty.
//
// The nonzeros of a row go through MMAs in their order, as many at a time as an MMA is deep. The
// result depends on the generation only through the length of a step, so m16n8k16 stands for two
// m16n8k8 or four m8n8k4 where a generation has only those.

#include <algorithm>

#include "formats/base/parallel.hpp"
#include "formats/base/registry.hpp"
#include "formats/csr.hpp"
#include "kernels/spmm_kernel.hpp"
#include "kernels/tensor_core/precision.hpp"

namespace tessera {
namespace {

constexpr int kMmaRows = 16, kMmaCols = 8;
constexpr int kWarps = 4;  // of a thread block; each has one row

class MmaCsr final : public SpmmKernel {
 public:
  MmaCsr(Precision precision, int depth) : precision_(std::move(precision)), depth_(depth) {}

  std::string format() const override { return CsrPacked::kFormat; }
  int version() const override { return 1; }

  Arithmetic arithmetic() const override {
    return {.sum = Arithmetic::Sum::kTensorCore,
            .type = type(),
            .mma_depth = depth_,
            .input_error = precision_.input_error,
            .mmas_per_chunk = static_cast<int>(precision_.mmas.size()),
            .promote = precision_.promote,
            .equilibrated = precision_.equilibrate};
  }

  std::vector<std::int64_t> terms_per_row(const PackedMatrix& packed) const override {
    std::vector<std::int64_t> terms = packed_as<CsrPacked>(packed).row_lengths();
    for (std::int64_t& count : terms) count = (count + depth_ - 1) / depth_;
    return terms;
  }

  DenseMatrix emulate(const PackedMatrix& packed, const DenseMatrix& b,
                      const Generation& generation) const override {
    const CsrMatrix& a = packed_as<CsrPacked>(packed).matrix;
    const FusedStep& step = generation.step(type());
    const PreparedB prepared(b, precision_);
    DenseMatrix c(a.rows, b.cols);
    parallel_for(a.rows, 16, [&](std::int64_t begin, std::int64_t end) {
      std::vector<RowTerm> terms;
      for (std::int64_t i = begin; i < end; ++i) {
        terms.clear();
        for (std::int64_t k = a.row_offsets[i]; k < a.row_offsets[i + 1]; ++k)
          terms.push_back({a.values[k], a.col_indices[k]});
        multiply_row(precision_, step, depth_, terms, prepared, c.row(i));
      }
    });
    return c;
  }

  WorkDescription work(const PackedMatrix& packed, std::int64_t n) const override {
    const CsrMatrix& a = packed_as<CsrPacked>(packed).matrix;
    WorkDescription work{.kernel = "mma_csr",
                         .mma_type = type() == MmaType::kTf32 ? "tf32" : "fp16",
                         .mma_shape = fmt::format("m{}n{}k{}", kMmaRows, kMmaCols, depth_),
                         .flops_per_mma = 2 * kMmaRows * kMmaCols * depth_};
    const auto chunks = terms_per_row(packed);
    const std::int64_t column_tiles = (n + kMmaRows - 1) / kMmaRows;  // swapped: C^T = B^T A^T
    const auto per_chunk = static_cast<std::int64_t>(precision_.mmas.size());
    work.thread_blocks.resize((a.rows + kWarps - 1) / kWarps);
    for (std::int32_t i = 0; i < a.rows; ++i) {
      ThreadBlockWork& block = work.thread_blocks[i / kWarps];
      block.mma += chunks[i] * per_chunk * column_tiles;
      block.a_bytes += 16 + 8 * a.row_length(i);
      block.b_bytes += 4 * a.row_length(i) * n;
      block.c_bytes += 4 * n;
    }
    work.launches = {{.name = "multiply",
                      .thread_blocks = static_cast<std::int64_t>(work.thread_blocks.size()),
                      .threads_per_block = 32 * kWarps}};
    work.footprint_bytes = stats(packed).bytes;
    work.b_rows_bytes = 4 * n * count_distinct(a.col_indices, a.cols);
    work.c_bytes = 4 * n * a.rows;
    work.useful_flops = 2 * a.nnz() * n;
    return work;
  }

 private:
  MmaType type() const { return type_of(precision_.conversion); }

  Precision precision_;
  int depth_;
};

std::vector<std::string> precision_names() {
  std::vector<std::string> names{"fp32"};
  for (const Precision& precision : precisions()) names.push_back(precision.name);
  return names;
}

std::unique_ptr<SpmmKernel> make_mma_csr(const Params& params) {
  const std::string& name = params.text("precision");
  // The ladder's foot: plain FP32 multiply-adds in the same order.
  if (name == "fp32") return Registry<SpmmKernel>::instance().make("csr_spmm");
  Precision precision = find_precision(name, params.integer("promote"));
  const std::string& instruction = params.text("instruction");
  int depth = precision.depth;
  if (instruction == "m16n8k4") depth = 4;
  if (instruction == "m16n8k8") depth = 8;
  if (instruction == "m16n8k16") depth = 16;
  return std::make_unique<MmaCsr>(std::move(precision), depth);
}

const Register<SpmmKernel> entry{{
    .name = "mma_csr",
    .summary = "CSR rows as chains of MMAs in any precision, for accuracy studies (no device half)",
    .params = {{"precision", std::string("tf32"), "how FP32 operands go through tensor cores",
                precision_names()},
               {"instruction",
                std::string("auto"),
                "products of a row per MMA; auto: the instruction of the precision",
                {"auto", "m16n8k4", "m16n8k8", "m16n8k16"}},
               promote_param()},
    .make = make_mma_csr,
}};

}  // namespace
}  // namespace tessera
