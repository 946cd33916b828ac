// The shared part of every SpGEMM product on a GPU: its memory, its stages, and the download of C.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "formats/base/check.hpp"
#include "kernels/gpu_spgemm.hpp"

namespace tessera {

void* ProductRun::take(std::int64_t bytes) {
  if (bytes == 0) return nullptr;
  void* memory = nullptr;
  const auto size = static_cast<std::size_t>(bytes);
  const cudaError_t status = source_ == MemorySource::kMalloc
                                 ? cudaMalloc(&memory, size)
                                 : cudaMallocAsync(&memory, size, stream_);
  if (status != cudaSuccess) {
    cudaGetLastError();  // otherwise the next launch would report it
    cuda_check(status,
               fmt::format("allocating {} bytes for a product that has {}", bytes, taken_).c_str());
  }
  taken_ += bytes;
  peak_ = std::max(peak_, taken_);
  if (poisons_) cuda_check(cudaMemsetAsync(memory, 0xff, size, stream_), "poisoning memory");
  return memory;
}

void ProductRun::give_back(void* memory, std::int64_t bytes) noexcept {
  taken_ -= bytes;
  source_ == MemorySource::kMalloc ? cudaFree(memory) : cudaFreeAsync(memory, stream_);
}

std::vector<ProductRun::StageTime> ProductRun::stage_times() {
  if (stages_.empty()) return {};
  stage("");
  cuda_check(cudaStreamSynchronize(stream_), "waiting for a product");
  std::vector<StageTime> times;
  for (std::size_t i = 0; i + 1 < stages_.size(); ++i) {
    float ms = 0;
    cuda_check(cudaEventElapsedTime(&ms, stages_[i].begin, stages_[i + 1].begin), "timing a stage");
    auto of_name = std::ranges::find(times, stages_[i].name, &StageTime::name);
    if (of_name == times.end()) of_name = times.insert(times.end(), {stages_[i].name, 0});
    of_name->us += 1e3 * ms;
  }
  return times;
}

ProductRun::~ProductRun() {
  for (const Stage& stage : stages_) cudaEventDestroy(stage.begin);
}

void GpuSparseProduct::multiply_again(float, ProductRun&) {
  throw Unsupported("this kernel keeps no structure of a product for the next one");
}

void GpuSparseProduct::set_values(std::span<const float>, std::span<const float>) {
  throw Unsupported("this kernel cannot replace the values of its operands");
}

void GpuSparseProduct::set_wide_values(std::span<const double>, std::span<const double>) {
  throw Unsupported("this product has no values in FP64");
}

WideCsrMatrix GpuSparseProduct::download_wide() const {
  throw Unsupported("this product has no values in FP64");
}

template <class Value>
SparseResultOf<Value> SparseResultOf<Value>::in_block(RunBlock block, const Places& places,
                                                      std::int32_t rows, std::int32_t cols,
                                                      std::int64_t most_nonzeros) {
  SparseResultOf result{rows,
                        cols,
                        block.array<std::int64_t>(places.row_offsets, std::int64_t{rows} + 1),
                        block.array<std::int32_t>(places.col_indices, most_nonzeros),
                        block.array<Value>(places.values, most_nonzeros),
                        {}};
  result.block = std::move(block);
  return result;
}

void take_result(std::int64_t nnz, std::int64_t bytes, const std::function<void()>& take) {
  try {
    take();
  } catch (const OutOfMemory& error) {
    throw OutOfMemory(fmt::format("C has {} nonzeros and takes {} bytes, which do not fit: {}", nnz,
                                  bytes, error.what()));
  }
}

template <class Value>
SparseResultOf<Value> SparseResultOf<Value>::in_one_block(ProductRun& run, std::int32_t rows,
                                                          std::int32_t cols, std::int64_t nnz) {
  RunBlock block;
  const Places places(block, rows, nnz);
  try {
    block.take(run);
  } catch (const OutOfMemory& error) {
    throw OutOfMemory(fmt::format("C has {} nonzeros and takes {} bytes, which do not fit: {}", nnz,
                                  block.bytes(), error.what()));
  }
  return in_block(std::move(block), places, rows, cols, nnz);
}

void require_mask(const CsrMatrix& a, const CsrMatrix& b, const CsrMatrix& mask) {
  require(mask.rows == a.rows && mask.cols == b.cols, "A B is {} x {}, and its mask {} x {}",
          a.rows, b.cols, mask.rows, mask.cols);
}

template <class Value>
void SparseResultOf<Value>::take_structure(const DeviceMask& mask, cudaStream_t stream) const {
  const auto copy = [&](const auto& to, const auto& from, std::int64_t count) {
    if (count == 0) return;  // there is no memory
    cuda_check(cudaMemcpyAsync(to.data(), from.data(), sizeof(*from.data()) * count,
                               cudaMemcpyDeviceToDevice, stream),
               "copying the mask's structure");
  };
  copy(row_offsets, mask.row_offsets, std::int64_t{mask.rows} + 1);
  copy(col_indices, mask.col_indices, mask.nnz);
}

void require_values(std::size_t a, std::size_t b, std::size_t of_a, std::size_t of_b) {
  require(a == of_a && b == of_b, "A and B have {} and {} values, but {} and {} are given", of_a,
          of_b, a, b);
}

template <class Value>
SparseResultOf<Value>::Host SparseResultOf<Value>::download() const {
  cuda_check(cudaDeviceSynchronize(), "waiting for a product");
  const auto download_array = [](const auto& array, std::int64_t size) {
    using T = std::remove_pointer_t<decltype(array.data())>;
    std::vector<T> host(static_cast<std::size_t>(size));
    cuda_check(
        cudaMemcpy(host.data(), array.data(), host.size() * sizeof(T), cudaMemcpyDeviceToHost),
        "downloading C");
    return host;
  };
  std::vector<std::int64_t> offsets = download_array(row_offsets, row_offsets.size());
  const std::int64_t nnz = offsets.empty() ? 0 : offsets.back();
  require(0 <= nnz && nnz <= col_indices.size(),
          "C's last row ends at {}, but its arrays have room for {}", nnz, col_indices.size());
  return {rows, cols, std::move(offsets), download_array(col_indices, nnz),
          download_array(values, nnz)};
}

template struct SparseResultOf<float>;
template struct SparseResultOf<double>;

}  // namespace tessera
