// Products in slices of A's rows, for SpGEMM kernels that hold all products of a slice at once; and
// a stable device-wide radix sort of cells (row, column, value).
#pragma once

#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>

#include <bit>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_select.cuh>
#include <functional>
#include <utility>
#include <vector>

#include "kernels/spgemm/shared/rows.cuh"

namespace tessera::spgemm {

/// Consecutive rows of A and their products. There are fewer than 2^31, as a single row has at most
/// one product per nonzero of B.
struct Slice {
  std::int64_t first_row, rows;
  std::int64_t first_nonzero, nonzeros;
  std::int64_t first_product, products;
};

/// The cells of C in a slice's rows.
struct SliceCells {
  SliceCells() = default;
  /// Allocates a block for the cells.
  SliceCells(ProductRun& run, std::int64_t nnz) {
    const auto at_cols = block.place<std::int32_t>(nnz), at_values = block.place<float>(nnz);
    block.take(run);
    col_indices = block.array<std::int32_t>(at_cols, nnz);
    values = block.array<float>(at_values, nnz);
  }
  /// Refers to the cells of C itself.
  explicit SliceCells(const SparseResult& c)
      : col_indices(RunArray<std::int32_t>::part(c.col_indices.data(), c.col_indices.size())),
        values(RunArray<float>::part(c.values.data(), c.values.size())) {}

  std::int64_t nnz() const { return col_indices.size(); }

  RunArray<std::int32_t> col_indices;  // [nnz]
  RunArray<float> values;              // [nnz]
  RunBlock block;
};

/// The numbers of a slice that the host reads from the device.
struct SliceNumbers {
  ReadBack<std::int64_t> products, rows, runs, nonzeros;
  ReadBack<std::uint32_t> cells;
};

/// The arguments for one slice, which has products.
struct SliceJob {
  ProductRun& run;
  CsrView a, b;
  Slice slice;
  float alpha;
  const std::int64_t* before_rows;  // [rows of A + 1]: products before each row
  std::int64_t* offsets;            // [slice.rows + 1]: output, row offsets of C within the slice
  RunArray<std::byte>&room, &more_room;  // temporary memory, one block in each
  SliceNumbers& numbers;
  std::function<SliceCells(std::int64_t nnz)> cells;  // allocates the result; called once
};

/// Bytes of scratch memory of a CUB algorithm, called as algorithm(memory, bytes).
template <class Algorithm>
std::int64_t scratch_bytes(Algorithm algorithm) {
  std::size_t bytes = 0;
  algorithm(static_cast<void*>(nullptr), bytes);
  return static_cast<std::int64_t>(bytes);
}
template <class Algorithm>
void use_scratch(const RunArray<std::byte>& scratch, Algorithm algorithm) {
  auto bytes = static_cast<std::size_t>(scratch.size());
  algorithm(static_cast<void*>(scratch.data()), bytes);
}

/// The number of bits of an index below `count`.
inline int index_bits(std::int64_t count) {
  return count <= 1 ? 0 : std::bit_width(static_cast<std::uint64_t>(count - 1));
}

/// The last i in [low, high) with sums[i] <= x; sums ascend, and sums[low] <= x.
template <class T, class Index>
__device__ Index last_at_most(const T* __restrict__ sums, Index low, Index high, T x) {
  while (high - low > 1) {
    const Index middle = low + (high - low) / 2;
    if (sums[middle] <= x)
      low = middle;
    else
      high = middle;
  }
  return low;
}

/// The first i in [0, count) with values[i] >= x, or count.
__device__ inline std::uint32_t first_at_least(const std::uint32_t* __restrict__ values,
                                               std::uint32_t count, std::uint32_t x) {
  std::uint32_t low = 0, high = count;
  while (low < high) {
    const std::uint32_t middle = low + (high - low) / 2;
    if (values[middle] < x)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

struct RowLengthOfB {
  CsrView a, b;
  __device__ std::uint32_t operator()(std::int64_t k) const {
    return static_cast<std::uint32_t>(b.row_length(a.col_indices[k]));
  }
};

/// An iterator over the numbers of products of a slice's nonzeros of A.
inline auto products_of_nonzeros(CsrView a, CsrView b, const Slice& slice) {
  return thrust::make_transform_iterator(
      thrust::counting_iterator<std::int64_t>(slice.first_nonzero), RowLengthOfB{a, b});
}

template <class Key>
struct IsFirstOfItsKey {
  const Key* keys;
  __device__ bool operator()(std::uint32_t i) const { return i == 0 || keys[i] != keys[i - 1]; }
};

/// Cells with keys whose lowest `bits` hold row and column.
template <class Key>
class SortedCells {
 public:
  /// Reserves memory in a block that is not yet allocated.
  SortedCells(RunBlock& block, std::int64_t count, int bits)
      : count_(count), bits_(std::max(bits, 1)) {
    for (int half = 0; half < 2; ++half) {
      at_keys_[half] = block.place<Key>(count);
      at_values_[half] = block.place<float>(count);
    }
  }
  /// Reserves scratch memory, which may overlap memory that is free again when cells are sorted.
  void place_scratch(RunBlock& block) {
    scratch_bytes_ = std::max(scratch_bytes(sort_by(nullptr)), scratch_bytes(find_in(nullptr)));
    at_scratch_ = block.place<std::byte>(scratch_bytes_);
  }
  /// Sets the pointers, once the block is allocated.
  void settle(const RunBlock& block) {
    keys_ = {block.data<Key>(at_keys_[0]), block.data<Key>(at_keys_[1])};
    values_ = {block.data<float>(at_values_[0]), block.data<float>(at_values_[1])};
    scratch_ = block.array<std::byte>(at_scratch_, scratch_bytes_);
  }

  Key* keys() { return keys_.Current(); }
  float* values() { return values_.Current(); }

  /// Sorts by key; equal keys keep their order.
  void sort(cudaStream_t stream) { use_scratch(scratch_, sort_by(stream)); }

  /// Finds the first cell of each run of equal keys. The number of runs stays on the device.
  void find_runs(std::int64_t* found, cudaStream_t stream) {
    found_ = found;
    use_scratch(scratch_, find_in(stream));
  }
  /// The first cells of runs, in memory that the sort no longer needs. [number of runs]
  std::uint32_t* runs() { return reinterpret_cast<std::uint32_t*>(keys_.Alternate()); }

 private:
  auto sort_by(cudaStream_t stream) {
    return [this, stream](void* scratch, std::size_t& bytes) {
      cuda_check(
          cub::DeviceRadixSort::SortPairs(scratch, bytes, keys_, values_, count_, 0, bits_, stream),
          "sorting products");
    };
  }
  auto find_in(cudaStream_t stream) {
    return [this, stream](void* scratch, std::size_t& bytes) {
      cuda_check(
          cub::DeviceSelect::If(scratch, bytes, thrust::counting_iterator<std::uint32_t>(0), runs(),
                                found_, count_, IsFirstOfItsKey<Key>{keys_.Current()}, stream),
          "finding equal cells");
    };
  }

  std::int64_t count_;
  int bits_;
  std::int64_t at_keys_[2], at_values_[2];
  std::int64_t scratch_bytes_ = 0, at_scratch_ = 0;
  cub::DoubleBuffer<Key> keys_;      // [count] each
  cub::DoubleBuffer<float> values_;  // [count] each
  RunArray<std::byte> scratch_;
  std::int64_t* found_ = nullptr;
};

/// Copies the cells of all slices to C, which has room for them. [slices]
void join(ProductRun& run, const std::vector<SliceCells>& slices, const SparseResult& c);

/// sums[i] += base.
void add_base(ProductRun& run, std::int64_t base, std::int64_t* sums, std::int64_t count);

/// Arrays that all slices share.
struct SliceRows {
  SliceRows(ProductRun& run, CsrView a, CsrView b) {
    const std::int64_t count = std::int64_t{a.rows} + 1;
    const std::int64_t sum_bytes =
        running_sum_bytes<std::int64_t>(static_cast<const std::int64_t*>(nullptr), count);
    const auto at_before = block.place<std::int64_t>(count);
    const auto at_offsets = block.place<std::int64_t>(count);
    const auto at_scratch = block.place<std::byte>(sum_bytes);
    block.take(run);
    products_before = block.data<std::int64_t>(at_before);
    offsets = block.data<std::int64_t>(at_offsets);
    count_row_products(a, b, products_before, run.stream());
    running_sum(block.array<std::byte>(at_scratch, sum_bytes), products_before, products_before,
                count, run.stream());
  }

  RunBlock block;
  std::int64_t* products_before;  // [rows of A + 1]: products before each row
  std::int64_t* offsets;          // [rows of A + 1]: row offsets of C
};

/// Multiplies in slices of at most `bound` products. multiply(SliceJob) returns the cells of a
/// slice.
template <class Multiply>
SparseResult multiply_slices(ProductRun& run, CsrView a, CsrView b, float alpha, std::int64_t bound,
                             SliceNumbers& numbers, Multiply multiply) {
  run.stage("count");
  const cudaStream_t stream = run.stream();
  const SliceRows rows(run, a, b);
  const auto clear = [&](std::int64_t* offsets, std::int64_t count) {
    cuda_check(cudaMemsetAsync(offsets, 0, sizeof(*offsets) * count, stream), "clearing offsets");
  };
  numbers.products.request(rows.products_before + a.rows, stream);
  const std::vector<RowCut> cuts =
      cut_rows(run, a, rows.products_before, numbers.products.wait(stream), bound);
  SparseResult c;
  const auto cells = [&](std::int64_t nnz) {
    if (cuts.size() != 2) return SliceCells(run, nnz);
    c = SparseResult::in_one_block(run, a.rows, b.cols, nnz);
    return SliceCells(c);
  };
  RunArray<std::byte> room, more_room;
  std::vector<SliceCells> slices;
  std::int64_t nnz = 0;
  if (a.rows == 0) clear(rows.offsets, 1);
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    const RowCut &from = cuts[i], &to = cuts[i + 1];
    const Slice slice{from.row,      to.row - from.row,
                      from.nonzeros, to.nonzeros - from.nonzeros,
                      from.products, to.products - from.products};
    std::int64_t* offsets = rows.offsets + slice.first_row;
    if (slice.products > 0)
      slices.push_back(multiply(SliceJob{run, a, b, slice, alpha, rows.products_before, offsets,
                                         room, more_room, numbers, cells}));
    else
      clear(offsets, slice.rows + 1);
    if (nnz > 0) add_base(run, nnz, offsets, slice.rows + 1);
    if (slice.products > 0) nnz += slices.back().nnz();
  }
  run.stage("join");
  if (cuts.size() != 2 || slices.empty()) {
    room = {};
    more_room = {};
    c = SparseResult::in_one_block(run, a.rows, b.cols, nnz);
    join(run, slices, c);
  }
  cuda_check(cudaMemcpyAsync(c.row_offsets.data(), rows.offsets,
                             sizeof(std::int64_t) * static_cast<std::size_t>(c.row_offsets.size()),
                             cudaMemcpyDeviceToDevice, stream),
             "writing C's offsets");
  return c;
}

/// The device half of a kernel that multiplies in slices of at most `bound` products.
/// Method::multiply_slice(job) returns the cells of a slice.
template <class Method>
class SlicedSpgemm final : public GpuSpgemm {
 public:
  explicit SlicedSpgemm(std::int64_t bound) : bound_(bound) {}

  std::unique_ptr<GpuSparseProduct> upload(const CsrMatrix& a, const CsrMatrix& b) const override {
    require_operands(a, b);
    return std::make_unique<SlicedProduct>(a, b, bound_);
  }

 private:
  class SlicedProduct final : public GpuSparseProduct {
   public:
    SlicedProduct(const CsrMatrix& a, const CsrMatrix& b, std::int64_t bound)
        : bound_(bound), a_(a), b_(b) {}

    void multiply(float alpha, ProductRun& run) override {
      release();
      c_ = multiply_slices(run, a_, b_, alpha, bound_, numbers_, Method::multiply_slice);
    }
    void release() override { c_ = {}; }
    const SparseResult* result() const override { return &c_; }
    CsrMatrix download() const override { return c_.download(); }

   private:
    std::int64_t bound_;
    DeviceCsr a_, b_;
    SliceNumbers numbers_;
    SparseResult c_;
  };

  std::int64_t bound_;
};

}  // namespace tessera::spgemm
