// The work of flash_sddmm: what its thread blocks do, and its warp trace.

#include <algorithm>
#include <memory>

#include "kernels/sddmm/flash/flash_sddmm.hpp"
#include "kernels/spmm_kernel.hpp"

namespace tessera::flash_sddmm {
namespace {

constexpr std::int64_t kBlockBytes = sizeof(Block), kVectorPlaceBytes = 4 * kWindowRows;

/// Instructions of a warp besides memory instructions and MMAs, counted in machine code (CUDA 13.0,
/// sm_90a).
struct InstructionCounts {
  static constexpr int kIdle = 12;    // a warp without a TC block
  static constexpr int kStart = 70;   // until the first operands
  static constexpr int kTurn = 25;    // of kUnroll MMAs
  static constexpr int kMma = 15;     // predicates and rounding of the operands of one
  static constexpr int kHalfMma = 9;  // the same in 16 bits
  static constexpr int kStore = 40;   // places and stores
};

struct Addresses {
  std::uint64_t blocks, columns, places, factors, x, y, s;
};

/// A product: what work and trace need of it.
struct Product {
  Product(const MeBcrs& matrix, const FlashSddmmOptions& chosen, std::int64_t k)
      : a(matrix),
        options(chosen),
        row_bytes(k * chosen.bytes()),
        mmas(chosen.mmas(k)),
        blocks(blocks_of(matrix)),
        places(places_of(matrix, matrix.unpack())) {}

  int rows_of(const Block& block) const {
    return static_cast<int>(
        std::min<std::int64_t>(kWindowRows, a.rows() - std::int64_t{block.window} * kWindowRows));
  }
  std::int64_t nonzeros_of(const Block& block) const {
    const auto begin = places.begin() + std::int64_t{block.first} * kWindowRows;
    const auto end = places.begin() + std::int64_t{block.last} * kWindowRows;
    return end - begin - std::count(begin, end, kNoPlace);
  }

  const MeBcrs& a;
  FlashSddmmOptions options;
  std::int64_t row_bytes;  // of X and Y
  std::int64_t mmas;       // of a TC block
  std::vector<Block> blocks;
  std::vector<std::uint32_t> places;
};

void add_block(const Product& product, const Block& block, ThreadBlockWork& work) {
  const std::int64_t vectors = block.last - block.first, nonzeros = product.nonzeros_of(block);
  work.mma += product.mmas;
  work.a_bytes += kBlockBytes + (4 + kVectorPlaceBytes) * vectors;
  if (product.options.scales_by_a) work.a_bytes += 4 * nonzeros;
  work.b_bytes += (product.rows_of(block) + vectors) * product.row_bytes;
  work.c_bytes += product.options.result_bytes() * nonzeros;
}

/// A step of the cursor is a turn of kUnroll MMAs.
class Trace final : public LaunchTrace {
 public:
  Trace(std::shared_ptr<const Product> product, const Addresses& at)
      : product_(std::move(product)), p_(*product_), at_(at) {}

  bool next(std::int64_t thread_block, int warp, WarpCursor& cursor,
            WarpTrace& trace) const override {
    const std::int64_t index = thread_block * kWarps + warp;
    if (index >= std::ssize(p_.blocks)) {
      trace.issue(InstructionCounts::kIdle);
      return false;
    }
    const Block& block = p_.blocks[index];
    if (cursor.step == 0) start(index, trace);
    const std::int64_t first = cursor.step++ * kUnroll;
    const std::int64_t last = std::min(first + kUnroll, p_.mmas);
    trace.issue(InstructionCounts::kTurn);
    for (std::int64_t mma = first; mma < last; ++mma) load_operands(block, mma, trace);
    trace.wait(kOperandBoard);
    const bool half = p_.options.storage.b != ElementType::kFp32;
    trace.issue((half ? InstructionCounts::kHalfMma : InstructionCounts::kMma) *
                static_cast<int>(last - first));
    trace.mma(static_cast<int>(last - first));
    if (last < p_.mmas) return true;
    trace.wait_mma();
    store(block, trace);
    return false;
  }

 private:
  static constexpr int kBlockBoard = 0, kColumnBoard = 1, kOperandBoard = 2, kPlaceBoard = 3;
  static constexpr int kWavefronts = 8;  // eight rows of 16 bytes each

  void start(std::int64_t index, WarpTrace& trace) const {
    const Block& block = p_.blocks[index];
    trace.pause(kSpecialRegisterCycles);
    trace.load(kBlockBoard);
    trace.touch(at_.blocks + static_cast<std::uint64_t>(index * kBlockBytes), kBlockBytes);
    trace.wait(kBlockBoard);
    trace.issue(InstructionCounts::kStart);
    trace.load(kColumnBoard);
    trace.touch(element(at_.columns, block.first, 4), 4 * (block.last - block.first));
    trace.wait(kColumnBoard);
  }

  /// Two loads of rows of Y, of eight vectors each, and one of rows of X.
  void load_operands(const Block& block, std::int64_t mma, WarpTrace& trace) const {
    const std::int64_t offset = mma * kStepBytes;
    const std::int64_t bytes = std::min<std::int64_t>(p_.row_bytes - offset, kStepBytes);
    const auto load = [&](std::uint64_t array, int count, auto row_of) {
      if (count <= 0) return trace.issue(1);
      trace.load(kOperandBoard);
      for (int i = 0; i < count; ++i)
        trace.touch(array + static_cast<std::uint64_t>(row_of(i) * p_.row_bytes + offset), bytes);
      trace.wavefronts(kWavefronts);
    };
    const int vectors = static_cast<int>(block.last - block.first);
    for (int half = 0; half < 2; ++half)
      load(at_.y, std::min(vectors - 8 * half, 8),
           [&](int i) { return std::int64_t{p_.a.col_indices[block.first + 8 * half + i]}; });
    load(at_.x, p_.rows_of(block),
         [&](int i) { return std::int64_t{block.window} * kWindowRows + i; });
    if (p_.row_bytes % 4 != 0) trace.issue(3);  // halves are loaded one by one
  }

  void store(const Block& block, WarpTrace& trace) const {
    trace.load(kPlaceBoard);
    trace.touch(element(at_.places, block.first, kVectorPlaceBytes),
                kVectorPlaceBytes * (block.last - block.first));
    trace.wait(kPlaceBoard);
    trace.issue(InstructionCounts::kStore);
    if (p_.options.scales_by_a) {
      trace.load(kPlaceBoard);
      touch_cells(block, at_.factors, 4, trace);
      trace.wait(kPlaceBoard);
    }
    trace.store(4);
    touch_cells(block, at_.s, p_.options.result_bytes(), trace);
  }

  void touch_cells(const Block& block, std::uint64_t array, int bytes, WarpTrace& trace) const {
    for (std::int64_t cell = std::int64_t{block.first} * kWindowRows;
         cell < std::int64_t{block.last} * kWindowRows; ++cell)
      if (p_.places[cell] != kNoPlace) trace.touch(element(array, p_.places[cell], bytes), bytes);
  }

  std::shared_ptr<const Product> product_;
  const Product& p_;
  Addresses at_;
};

}  // namespace

WorkDescription describe_work(const MeBcrs& a, const FlashSddmmOptions& options, std::int64_t k) {
  const auto product = std::make_shared<const Product>(a, options, k);
  const bool half = options.storage.b != ElementType::kFp32;
  WorkDescription work{.kernel = "flash_sddmm",
                       .mma_type = half ? "fp16" : "tf32",  // BF16 has FP16's rate
                       .mma_shape = half ? "m16n8k8" : "m16n8k4",
                       .flops_per_mma = 2 * 16 * 8 * options.depth()};
  const Addresses at{.blocks = work.memory.add("blocks", kBlockBytes * std::ssize(product->blocks)),
                     .columns = work.memory.add("columns", 4 * a.num_vectors()),
                     .places = work.memory.add("places", kVectorPlaceBytes * a.num_vectors()),
                     .factors = work.memory.add("factors", options.scales_by_a ? 4 * a.nnz() : 0),
                     .x = work.memory.add("x", product->row_bytes * a.rows()),
                     .y = work.memory.add("y", product->row_bytes * a.cols()),
                     .s = work.memory.add("s", options.result_bytes() * a.nnz())};
  std::int64_t rows_of_x = 0, last_window = -1;
  for (const Block& block : product->blocks) {
    if (block.window != last_window) rows_of_x += product->rows_of(block);
    last_window = block.window;
  }
  const std::int64_t thread_blocks = (std::ssize(product->blocks) + kWarps - 1) / kWarps;
  for (std::int64_t index = 0; index < thread_blocks; ++index) {
    ThreadBlockWork& of_block = work.thread_blocks.emplace_back();
    const std::int64_t end =
        std::min<std::int64_t>((index + 1) * kWarps, std::ssize(product->blocks));
    for (std::int64_t block = index * kWarps; block < end; ++block)
      add_block(*product, product->blocks[block], of_block);
  }
  work.launches.push_back({.name = "multiply",
                           .thread_blocks = thread_blocks,
                           .threads_per_block = 32 * kWarps,
                           .registers_per_thread = kRegisters,
                           .shared_bytes = 0,
                           .trace = std::make_shared<Trace>(product, at)});
  work.footprint_bytes = kBlockBytes * std::ssize(product->blocks) +
                         (4 + kVectorPlaceBytes) * a.num_vectors() +
                         (options.scales_by_a ? 4 * a.nnz() : 0);
  work.b_rows_bytes = product->row_bytes * (rows_of_x + count_distinct(a.col_indices, a.cols()));
  work.c_bytes = options.result_bytes() * a.nnz();
  work.useful_flops = 2 * a.nnz() * k;
  return work;
}

}  // namespace tessera::flash_sddmm
