// The device half of an SpGEMM kernel: upload once, multiply as often as asked.
//
// Registered under the name of its host half (kernels/spgemm_kernel.hpp), from a *.cu or *_gpu.cpp
// file. A product takes all its device memory, C included, from the ProductRun that it is given:
// so it is timed with every allocation inside, from either source, and its peak is known.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "formats/base/device_memory.hpp"
#include "formats/base/matrix.hpp"

namespace tessera {

/// Where a product's memory comes from: the plain allocator, which waits for the device, or the
/// device's pool, in the order of the stream.
enum class MemorySource { kMalloc, kPool };

/// One execution of a product: its stream, its memory, and when its stages began.
class ProductRun {
 public:
  ProductRun(MemorySource source, cudaStream_t stream) : source_(source), stream_(stream) {}
  ProductRun(const ProductRun&) = delete;
  ProductRun& operator=(const ProductRun&) = delete;

  cudaStream_t stream() const { return stream_; }
  MemorySource source() const { return source_; }

  /// Fills what is taken from now on with bytes 0xff, so that what nobody writes can be seen.
  void poison() { poisons_ = true; }

  /// Remembers when stages begin; without this, naming them costs nothing.
  void watch_stages() { watches_ = true; }

  /// From here on the stream's time belongs to the stage.
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
  /// Ends the last stage, waits, and tells how long each took; once. Stages of one name are one.
  std::vector<StageTime> stage_times();

  std::int64_t peak_bytes() const { return peak_; }

  /// Uninitialised memory, aligned to 256 bytes; nullptr for none. Throws OutOfMemory.
  void* take(std::int64_t bytes);
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

/// An array of a product, given back to its run when it goes out of scope. The run has to live as
/// long.
template <class T>
class RunArray {
 public:
  RunArray() = default;
  /// A part of an array that somebody else gives back.
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

/// Arrays that lie one after another in one block: the plain allocator takes its time for each.
class RunBlock {
 public:
  RunBlock() = default;

  /// Where an array of so many elements will lie. Before take().
  template <class T>
  std::int64_t place(std::int64_t size) {
    constexpr std::int64_t kAlignment = 256;
    const std::int64_t at = next_;
    next_ +=
        (size * static_cast<std::int64_t>(sizeof(T)) + kAlignment - 1) / kAlignment * kAlignment;
    bytes_ = std::max(bytes_, next_);
    return at;
  }

  /// Of everything placed so far.
  std::int64_t bytes() const { return bytes_; }

  /// Where the next array will lie.
  std::int64_t next() const { return next_; }
  /// The arrays placed from now on lie over those from there on: when the ones are in use, the
  /// others are not.
  void place_over(std::int64_t place) { next_ = place; }

  void take(ProductRun& run) {
    block_ = RunArray<std::byte>(run, bytes_);
    memory_ = block_.data();
  }
  /// The same in memory that outlives the block, where it is large enough; else it grows.
  void take(ProductRun& run, RunArray<std::byte>& room) {
    if (room.size() < bytes_) {
      room = {};
      room = RunArray<std::byte>(run, bytes_);
    }
    memory_ = room.data();
  }

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

/// A value that the device tells the host, through pinned memory: that is for a product to own, not
/// for each of its runs to take.
template <class T>
class Told {
 public:
  Told() {
    void* memory = nullptr;
    cuda_check(cudaHostAlloc(&memory, sizeof(T), cudaHostAllocDefault), "allocating pinned memory");
    value_ = static_cast<T*>(memory);
  }
  ~Told() { cudaFreeHost(value_); }
  Told(const Told&) = delete;
  Told& operator=(const Told&) = delete;

  /// There once the stream has been waited for.
  void ask(const T* device, cudaStream_t stream) {
    cuda_check(cudaMemcpyAsync(value_, device, sizeof(T), cudaMemcpyDeviceToHost, stream),
               "reading from the device");
  }
  const T& wait(cudaStream_t stream) const {
    cuda_check(cudaStreamSynchronize(stream), "waiting for a product");
    return *value_;
  }
  const T& operator*() const { return *value_; }
  const T* operator->() const { return value_; }

 private:
  T* value_ = nullptr;
};

/// A and B on the device in the form that the kernel reads, and C after a product.
class GpuSparseProduct {
 public:
  virtual ~GpuSparseProduct() = default;

  /// C = alpha A B, complete with its allocations. May wait for the device; when it returns, what
  /// is left to do is on the run's stream. A C of before has been released.
  virtual void multiply(float alpha, ProductRun& run) = 0;

  /// Whether a product keeps what multiply_again() needs, until it is released.
  virtual bool keeps_structure() const { return false; }

  /// The same with the values that A and B have by now, into the C of the last product, which has
  /// not been released and whose structure stays; on that product's run. Takes no memory and does
  /// not wait. Throws Unsupported where nothing is kept for it.
  virtual void multiply_again(float alpha, ProductRun& run);

  /// Gives A and B other values, in the order of the matrices that were uploaded; B's are empty
  /// where B is A. No product is under way. Throws Unsupported for kernels that cannot.
  virtual void set_values(std::span<const float> a, std::span<const float> b);

  /// Gives C's memory back to its run.
  virtual void release() = 0;

  /// The C of the last product, in whatever form the kernel leaves it, as CSR. Waits.
  virtual CsrMatrix download() const = 0;
};

/// A CSR matrix on the device, offsets in 64 bits.
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

/// The C of a product in CSR, taken from its run.
struct SparseResult {
  std::int32_t rows = 0, cols = 0;
  RunArray<std::int64_t> row_offsets;  // [rows + 1]
  RunArray<std::int32_t> col_indices;  // [nnz] or more: its last row's end says how many
  RunArray<float> values;              // likewise
  RunBlock block;                      // of the arrays, where they are in one

  /// Where the arrays will lie in a block that has room for so many nonzeros.
  struct Places {
    Places(RunBlock& block, std::int32_t rows, std::int64_t most_nonzeros)
        : row_offsets(block.place<std::int64_t>(std::int64_t{rows} + 1)),
          col_indices(block.place<std::int32_t>(most_nonzeros)),
          values(block.place<float>(most_nonzeros)) {}

    std::int64_t row_offsets, col_indices, values;
  };
  /// In a block that has been taken, and may hold other things. There may be fewer nonzeros.
  static SparseResult in_block(RunBlock block, const Places& places, std::int32_t rows,
                               std::int32_t cols, std::int64_t most_nonzeros);

  /// All arrays in one block.
  static SparseResult in_one_block(ProductRun& run, std::int32_t rows, std::int32_t cols,
                                   std::int64_t nnz);

  CsrMatrix download() const;
};

/// Throws an Error unless there are as many values as A and B take, none of B's where B is A.
void require_values(std::span<const float> a, std::span<const float> b, std::size_t of_a,
                    std::size_t of_b);

class GpuSpgemm {
 public:
  static constexpr const char* kKind = "GPU SpGEMM kernel";
  virtual ~GpuSpgemm() = default;

  /// Brings A and B to the device, converted if the kernel reads another form than CSR: that is
  /// not part of a product's time. Throws Unsupported for operands it does not take.
  virtual std::unique_ptr<GpuSparseProduct> upload(const CsrMatrix& a,
                                                   const CsrMatrix& b) const = 0;
};

}  // namespace tessera
