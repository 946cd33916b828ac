// C in slices of A's rows, for SpGEMM kernels that hold all products of a slice at once; and cells
// (row, column, value) sorted by device-wide radix sort, equal ones next to each other in the order
// in which they came.
#pragma once

#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>

#include <bit>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_select.cuh>
#include <utility>
#include <vector>

#include "kernels/spgemm_rows.cuh"

namespace tessera::spgemm {

/// Some rows of A and their products, fewer than 2^31: a row of A alone has at most as many as B
/// has nonzeros.
struct Slice {
  std::int64_t first_row, rows;
  std::int64_t first_nonzero, nonzeros;
  std::int64_t first_product, products;
};

/// The cells of C in a slice's rows.
struct SliceCells {
  std::int64_t nnz() const { return col_indices.size(); }

  RunArray<std::int32_t> col_indices;  // [nnz]
  RunArray<float> values;              // [nnz]
};

/// Bits of every index below `count`.
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

/// The slice's products before each of its nonzeros. [slice.nonzeros]
inline RunArray<std::uint32_t> products_before_nonzeros(ProductRun& run, CsrView a, CsrView b,
                                                        const Slice& slice) {
  RunArray<std::uint32_t> before(run, slice.nonzeros);
  running_sum(run,
              thrust::make_transform_iterator(
                  thrust::counting_iterator<std::int64_t>(slice.first_nonzero), RowLengthOfB{a, b}),
              before.data(), slice.nonzeros);
  return before;
}

template <class Key>
struct IsFirstOfItsKey {
  const Key* keys;
  __device__ bool operator()(std::uint32_t i) const { return i == 0 || keys[i] != keys[i - 1]; }
};

/// Cells by keys that hold row and column.
template <class Key>
class SortedCells {
 public:
  SortedCells(ProductRun& run, std::int64_t count)
      : run_(run), count_(count), key_space_(run, 2 * count), value_space_(run, 2 * count) {
    keys_ = {key_space_.data(), key_space_.data() + count};
    values_ = {value_space_.data(), value_space_.data() + count};
  }

  Key* keys() { return keys_.Current(); }
  float* values() { return values_.Current(); }

  /// By the lowest `bits` of the keys; keeps the order of equal ones.
  void sort(int bits) {
    const auto sort = [&](void* scratch, std::size_t& bytes) {
      cuda_check(cub::DeviceRadixSort::SortPairs(scratch, bytes, keys_, values_, count_, 0,
                                                 std::max(bits, 1), run_.stream()),
                 "sorting products");
    };
    with_scratch(sort);
  }

  /// Finds where runs of equal keys begin: their number. Waits for the stream.
  std::int64_t find_runs() {
    const RunArray<std::int64_t> found(run_, 1);
    const auto select = [&](void* scratch, std::size_t& bytes) {
      cuda_check(cub::DeviceSelect::If(scratch, bytes, thrust::counting_iterator<std::uint32_t>(0),
                                       runs(), found.data(), count_,
                                       IsFirstOfItsKey<Key>{keys_.Current()}, run_.stream()),
                 "finding equal cells");
    };
    with_scratch(select);
    return read_back(run_, found.data());
  }
  /// In the space that the sort no longer needs. [find_runs()]
  std::uint32_t* runs() { return reinterpret_cast<std::uint32_t*>(keys_.Alternate()); }

 private:
  template <class F>
  void with_scratch(F f) {
    std::size_t bytes = 0;
    f(nullptr, bytes);
    const RunArray<std::uint8_t> scratch(run_, static_cast<std::int64_t>(bytes));
    f(scratch.data(), bytes);
  }

  ProductRun& run_;
  std::int64_t count_;
  RunArray<Key> key_space_;      // [2][count]
  RunArray<float> value_space_;  // [2][count]
  cub::DoubleBuffer<Key> keys_;
  cub::DoubleBuffer<float> values_;
};

/// The cells of all slices as C. [slices]
void join(ProductRun& run, std::vector<SliceCells> slices, SparseResult& c);

/// to[i] = from[i] + base.
void add_base(ProductRun& run, const std::int64_t* from, std::int64_t base, std::int64_t* to,
              std::int64_t count);

/// C by slices of at most `bound` products. `multiply(slice, products_before_rows, offsets)` gives
/// the cells of a slice, which has products, and writes its [slice.rows + 1] offsets of rows, the
/// first of which is zero.
template <class Multiply>
SparseResult multiply_slices(ProductRun& run, CsrView a, CsrView b, std::int64_t bound,
                             Multiply multiply) {
  run.stage("count");
  SparseResult c;
  c.rows = a.rows;
  c.cols = b.cols;
  c.row_offsets = RunArray<std::int64_t>(run, std::int64_t{a.rows} + 1);
  cuda_check(cudaMemsetAsync(c.row_offsets.data(), 0, sizeof(std::int64_t), run.stream()),
             "clearing C's offsets");
  const RunArray<std::int64_t> before = products_before_rows(run, a, b);
  const std::vector<RowCut> cuts = cut_rows(run, before, bound);
  std::vector<SliceCells> slices;
  std::int64_t first_nonzero = 0, nnz = 0;
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    const std::int64_t row = cuts[i].row, rows = cuts[i + 1].row - row;
    const std::int64_t end = read_back(run, a.row_offsets + row + rows);
    const Slice slice{row,
                      rows,
                      first_nonzero,
                      end - first_nonzero,
                      cuts[i].products,
                      cuts[i + 1].products - cuts[i].products};
    first_nonzero = end;
    const RunArray<std::int64_t> offsets(run, rows + 1);
    if (slice.products > 0)
      slices.push_back(multiply(slice, before.data(), offsets.data()));
    else
      cuda_check(
          cudaMemsetAsync(offsets.data(), 0, sizeof(std::int64_t) * (rows + 1), run.stream()),
          "clearing offsets");
    add_base(run, offsets.data(), nnz, c.row_offsets.data() + row, rows + 1);
    if (slice.products > 0) nnz += slices.back().nnz();
  }
  run.stage("join");
  join(run, std::move(slices), c);
  return c;
}

/// The device half of a kernel that multiplies slice by slice, of at most `bound` products each:
/// Method::multiply_slice(run, a, b, slice, alpha, before_rows, offsets), as multiply_slices()
/// asks.
template <class Method>
class SlicedSpgemm final : public GpuSpgemm {
 public:
  explicit SlicedSpgemm(std::int64_t bound) : bound_(bound) {}

  std::unique_ptr<GpuSparseProduct> upload(const CsrMatrix& a, const CsrMatrix& b) const override {
    require_operands(a, b);
    return std::make_unique<Product>(a, b, bound_);
  }

 private:
  class Product final : public GpuSparseProduct {
   public:
    Product(const CsrMatrix& a, const CsrMatrix& b, std::int64_t bound)
        : bound_(bound), a_(a), b_(b) {}

    void multiply(float alpha, ProductRun& run) override {
      release();
      c_ = multiply_slices(
          run, a_, b_, bound_,
          [&](const Slice& slice, const std::int64_t* before_rows, std::int64_t* offsets) {
            return Method::multiply_slice(run, a_, b_, slice, alpha, before_rows, offsets);
          });
    }
    void release() override { c_ = {}; }
    CsrMatrix download() const override { return c_.download(); }

   private:
    std::int64_t bound_;
    DeviceCsr a_, b_;
    SparseResult c_;
  };

  std::int64_t bound_;
};

}  // namespace tessera::spgemm
