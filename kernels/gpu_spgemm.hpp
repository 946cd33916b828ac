// The interface of an SpGEMM kernel's device half: upload A and B once, then make any number of
// products.
//
// A device half registers itself under the name of its host half (kernels/spgemm_kernel.hpp); its
// file ends in .cu or _gpu.cpp. A product takes all its device memory, that of C included, from a
// ProductRun. Its time therefore includes every allocation, from either source of memory, and its
// peak memory is known.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "formats/base/device_memory.hpp"
#include "formats/base/matrix.hpp"
#include "formats/base/read_back.hpp"
#include "formats/base/wide_matrix.hpp"

namespace tessera {

/// The source of a product's memory: the plain allocator, which waits for the device, or the
/// device's pool, which allocates in stream order.
enum class MemorySource { kMalloc, kPool };

/// One execution of a product: its stream, its memory, and the times at which its stages begin.
class ProductRun {
 public:
  ProductRun(MemorySource source, cudaStream_t stream) : source_(source), stream_(stream) {}
  ProductRun(const ProductRun&) = delete;
  ProductRun& operator=(const ProductRun&) = delete;

  cudaStream_t stream() const { return stream_; }
  MemorySource source() const { return source_; }

  /// Fills memory that is taken from now on with bytes 0xff, so that unwritten elements are found.
  void poison() { poisons_ = true; }

  /// Records the times at which stages begin. Without this call, stage() costs nothing.
  void watch_stages() { watches_ = true; }

  /// Begins a stage: the stream's time from here on, until the next call, belongs to it.
  void stage(const char* name) {
    if (!watches_) return;
    cudaEvent_t event = nullptr;
    cuda_check(cudaEventCreate(&event), "creating an event");
    cuda_check(cudaEventRecord(event, stream_), "timing a stage");
    stages_.push_back({name, event});
  }

  struct StageTime {
    std::string name;
    double us;
  };
  /// Ends the last stage, waits for the stream, and returns the time of each stage; stages of the
  /// same name are added up. Empty unless stages are watched. Call it once.
  std::vector<StageTime> stage_times();

  /// The largest number of bytes that were taken at one time.
  std::int64_t peak_bytes() const { return peak_; }

  /// Takes uninitialised memory, aligned to 256 bytes; nullptr for 0 bytes. Throws OutOfMemory.
  void* take(std::int64_t bytes);
  /// Returns memory to its source; `bytes` is the size that was taken.
  void give_back(void* memory, std::int64_t bytes) noexcept;

  ~ProductRun();

 private:
  struct Stage {
    const char* name;
    cudaEvent_t begin;
  };
  MemorySource source_;
  cudaStream_t stream_;
  bool poisons_ = false, watches_ = false;
  std::int64_t taken_ = 0, peak_ = 0;
  std::vector<Stage> stages_;
};

/// An array of a product, which is returned to the run when the array is destroyed. The run has to
/// outlive it.
template <class T>
class RunArray {
 public:
  RunArray() = default;
  /// A view of part of an array that something else owns and returns.
  static RunArray part(void* data, std::int64_t size) {
    RunArray array;
    array.size_ = size;
    array.data_ = static_cast<T*>(data);
    return array;
  }
  RunArray(ProductRun& run, std::int64_t size)
      : run_(&run), size_(size), data_(static_cast<T*>(run.take(size * bytes_each()))) {}
  ~RunArray() {
    if (run_ != nullptr && data_ != nullptr) run_->give_back(data_, size_ * bytes_each());
  }
  RunArray(RunArray&& other) noexcept
      : run_(std::exchange(other.run_, nullptr)),
        size_(std::exchange(other.size_, 0)),
        data_(std::exchange(other.data_, nullptr)) {}
  RunArray& operator=(RunArray&& other) noexcept {
    std::swap(run_, other.run_);
    std::swap(size_, other.size_);
    std::swap(data_, other.data_);
    return *this;
  }

  T* data() const { return data_; }
  std::int64_t size() const { return size_; }

 private:
  static constexpr std::int64_t bytes_each() { return sizeof(T); }

  ProductRun* run_ = nullptr;
  std::int64_t size_ = 0;
  T* data_ = nullptr;
};

/// Arrays that lie one after another in one block of memory, because every call of the plain
/// allocator is slow. First place() every array, then take() the block, then use array() or data().
class RunBlock {
 public:
  RunBlock() = default;

  /// The byte offset in the block of an array of `size` elements. Call it before take().
  template <class T>
  std::int64_t place(std::int64_t size) {
    constexpr std::int64_t kAlignment = 256;
    const std::int64_t at = next_;
    next_ +=
        (size * static_cast<std::int64_t>(sizeof(T)) + kAlignment - 1) / kAlignment * kAlignment;
    bytes_ = std::max(bytes_, next_);
    return at;
  }

  /// The size of the block for all arrays placed so far.
  std::int64_t bytes() const { return bytes_; }

  /// The byte offset of the next array.
  std::int64_t next() const { return next_; }
  /// Places the next arrays over those from this offset on. The two groups share memory: the caller
  /// must not use them at the same time.
  void place_over(std::int64_t place) { next_ = place; }

  /// Takes the block from the run. Throws OutOfMemory.
  void take(ProductRun& run) {
    block_ = RunArray<std::byte>(run, bytes_);
    memory_ = block_.data();
  }
  /// Takes the block from `room`, which outlives it; `room` is replaced when it is too small.
  void take(ProductRun& run, RunArray<std::byte>& room) {
    if (room.size() < bytes_) {
      room = {};
      room = RunArray<std::byte>(run, bytes_);
    }
    memory_ = room.data();
  }

  /// The array at a place, as an array or as a pointer. Call it after take().
  template <class T>
  RunArray<T> array(std::int64_t place, std::int64_t size) const {
    return RunArray<T>::part(size == 0 ? nullptr : memory_ + place, size);
  }
  template <class T>
  T* data(std::int64_t place) const {
    return reinterpret_cast<T*>(memory_ + place);
  }

 private:
  std::int64_t next_ = 0, bytes_ = 0;
  RunArray<std::byte> block_;
  std::byte* memory_ = nullptr;
};

template <class Value>
struct SparseResultOf;
using SparseResult = SparseResultOf<float>;

/// A and B on the device, in the form that the kernel reads, and C after a product.
class GpuSparseProduct {
 public:
  virtual ~GpuSparseProduct() = default;

  /// Makes C = alpha A B, with all its allocations. May wait for the device; when it returns, all
  /// remaining work is enqueued on the run's stream. The caller has released any earlier C.
  virtual void multiply(float alpha, ProductRun& run) = 0;

  /// True when a product keeps, until it is released, what multiply_again() needs.
  virtual bool keeps_structure() const { return false; }

  /// Makes the product again from the current values of A and B. It overwrites the values of the
  /// last product's C, which must not have been released, and keeps its structure. `run` is that
  /// product's run. Takes no memory and does not wait. Throws Unsupported when the kernel keeps
  /// nothing.
  virtual void multiply_again(float alpha, ProductRun& run);

  /// Replaces the values of A and B, in the order of the uploaded matrices; `b` is empty where B is
  /// A. No product may be in progress. Throws an Error for a wrong number of values, Unsupported
  /// when the kernel cannot replace them.
  virtual void set_values(std::span<const float> a, std::span<const float> b);

  /// Returns C's memory to its run.
  virtual void release() = 0;

  /// The C of the last product on the device; nullptr for a kernel that leaves it in another form
  /// than CSR. It stays at the same address, and is empty before a product.
  virtual const SparseResult* result() const { return nullptr; }

  /// The C of the last product, converted to CSR from the form in which the kernel leaves it, and
  /// rounded to FP32 where that has more digits. Waits for the device.
  virtual CsrMatrix download() const = 0;

  /// set_values() and download() in FP64, for products that compute in it. Others throw
  /// Unsupported.
  virtual void set_wide_values(std::span<const double> a, std::span<const double> b);
  virtual WideCsrMatrix download_wide() const;
};

/// A CSR matrix on the device, with offsets of 64 bits.
struct DeviceCsr {
  explicit DeviceCsr(const CsrMatrix& matrix)
      : rows(matrix.rows),
        cols(matrix.cols),
        nnz(matrix.nnz()),
        row_offsets(matrix.row_offsets),
        col_indices(matrix.col_indices),
        values(matrix.values) {}

  std::int32_t rows, cols;
  std::int64_t nnz;
  DeviceArray<std::int64_t> row_offsets;  // [rows + 1]
  DeviceArray<std::int32_t> col_indices;  // [nnz]
  DeviceArray<float> values;              // [nnz]
};

/// The pattern of a mask on the device.
struct DeviceMask {
  explicit DeviceMask(const CsrMatrix& mask)
      : rows(mask.rows),
        cols(mask.cols),
        nnz(mask.nnz()),
        row_offsets(mask.row_offsets),
        col_indices(mask.col_indices) {}

  std::int32_t rows, cols;
  std::int64_t nnz;
  DeviceArray<std::int64_t> row_offsets;  // [rows + 1]
  DeviceArray<std::int32_t> col_indices;  // [nnz]
};

/// Throws an Error when the mask has another shape than A B.
void require_mask(const CsrMatrix& a, const CsrMatrix& b, const CsrMatrix& mask);

/// Calls take(), which takes the memory of a C of `nnz` nonzeros, `bytes` in all. Throws
/// OutOfMemory with both numbers in place of the error that take() throws.
void take_result(std::int64_t nnz, std::int64_t bytes, const std::function<void()>& take);

/// The C of a product in CSR, in memory of its run, with values in FP32 or FP64.
template <class Value>
struct SparseResultOf {
  using Host = std::conditional_t<std::is_same_v<Value, float>, CsrMatrix, WideCsrMatrix>;

  std::int32_t rows = 0, cols = 0;
  RunArray<std::int64_t> row_offsets;  // [rows + 1]
  RunArray<std::int32_t> col_indices;  // [nnz] or more; row_offsets[rows] is nnz
  RunArray<Value> values;              // likewise
  RunBlock block;                      // owns the arrays when they share one block

  /// The byte offsets of the arrays in a block that has room for `most_nonzeros` nonzeros.
  struct Places {
    Places(RunBlock& block, std::int32_t rows, std::int64_t most_nonzeros)
        : row_offsets(block.place<std::int64_t>(std::int64_t{rows} + 1)),
          col_indices(block.place<std::int32_t>(most_nonzeros)),
          values(block.place<Value>(most_nonzeros)) {}

    std::int64_t row_offsets, col_indices, values;
  };
  /// A result in a block that has been taken, and that may hold other arrays, too. C has at most
  /// `most_nonzeros` nonzeros.
  static SparseResultOf in_block(RunBlock block, const Places& places, std::int32_t rows,
                                 std::int32_t cols, std::int64_t most_nonzeros);

  /// A result whose arrays share one new block. Throws OutOfMemory.
  static SparseResultOf in_one_block(ProductRun& run, std::int32_t rows, std::int32_t cols,
                                     std::int64_t nnz);

  /// Copies the mask's structure to the arrays, which have room for it. Does not wait.
  void take_structure(const DeviceMask& mask, cudaStream_t stream) const;

  /// Waits for the device and copies C to the host. Throws an Error when the last row offset does
  /// not lie within the arrays.
  Host download() const;
};
extern template struct SparseResultOf<float>;
extern template struct SparseResultOf<double>;

/// Throws an Error unless the numbers of values match those that A and B take (`of_a`, `of_b`);
/// `of_b` is 0 where B is A.
void require_values(std::size_t a, std::size_t b, std::size_t of_a, std::size_t of_b);
inline void require_values(std::span<const float> a, std::span<const float> b, std::size_t of_a,
                           std::size_t of_b) {
  require_values(a.size(), b.size(), of_a, of_b);
}

class GpuSpgemm {
 public:
  static constexpr const char* kKind = "GPU SpGEMM kernel";
  virtual ~GpuSpgemm() = default;

  /// Copies A and B to the device, converted if the kernel reads another form than CSR. This is not
  /// part of a product's time. Throws an Error when the shapes do not match, Unsupported for
  /// operands that the kernel does not take.
  virtual std::unique_ptr<GpuSparseProduct> upload(const CsrMatrix& a,
                                                   const CsrMatrix& b) const = 0;

  /// The same for products under the pattern of a mask (kernels/spgemm_kernel.hpp). A kernel that
  /// does not make them makes the whole product first, then keeps the mask's cells
  /// (kernels/spgemm/shared/filtered_product.cu). Throws an Error when the mask has another shape
  /// than C, Unsupported where C is left in another form than CSR.
  virtual std::unique_ptr<GpuSparseProduct> upload_masked(const CsrMatrix& a, const CsrMatrix& b,
                                                          const CsrMatrix& mask) const;
};

}  // namespace tessera
