#include "experiments/gpu_packing.hpp"

#include <cstring>

#include "formats/base/registry.hpp"
#include "formats/gpu_format.hpp"

namespace tessera {
namespace {

/// A device array of the packed matrix, brought back.
std::vector<std::byte> download(const GpuArray& array) {
  std::vector<std::byte> host(static_cast<std::size_t>(array.data.bytes()));
  cuda_check(
      cudaMemcpy(host.data(), array.data.as<std::byte>(), host.size(), cudaMemcpyDeviceToHost),
      "copying a packed array from the device");
  return host;
}

std::vector<std::string> differences(const GpuPacked& packed, const PackedMatrix& expected) {
  std::vector<std::string> different;
  const std::vector<ArrayInfo> arrays = expected.arrays();
  for (std::size_t i = 0; i < std::max(arrays.size(), packed.arrays.size()); ++i) {
    if (i >= arrays.size()) {
      different.push_back(packed.arrays[i].name + " (the host has none)");
    } else if (i >= packed.arrays.size() || packed.arrays[i].name != arrays[i].name) {
      different.push_back(arrays[i].name + " (missing)");
    } else if (packed.arrays[i].data.bytes() != arrays[i].bytes) {
      different.push_back(fmt::format("{} ({} bytes, not {})", arrays[i].name,
                                      packed.arrays[i].data.bytes(), arrays[i].bytes));
    } else if (arrays[i].bytes > 0 && std::memcmp(download(packed.arrays[i]).data(), arrays[i].data,
                                                  static_cast<std::size_t>(arrays[i].bytes)) != 0) {
      different.push_back(arrays[i].name);
    }
  }
  return different;
}

}  // namespace

GpuPacking pack_on_gpu(const Variant& format, const CsrMatrix& matrix, const PackedMatrix& expected,
                       const MeasureRule& rule) {
  const auto& registry = Registry<GpuFormat>::instance();
  require<Unsupported>(registry.contains(format.name), "{} is not built on GPUs", format.name);
  const auto builder = registry.make(format.name, format.params);
  keep_pooled_memory(std::uint64_t{1} << 34);
  const DeviceArray<std::int64_t> row_offsets(matrix.row_offsets);
  const DeviceArray<std::int32_t> col_indices(matrix.col_indices);
  const DeviceArray<float> values(matrix.values);
  const DeviceCsr a{matrix.rows,        matrix.cols,        matrix.nnz(),
                    row_offsets.data(), col_indices.data(), values.data()};
  cudaStream_t stream = nullptr;
  GpuPacking result;
  {
    const GpuPacked packed = builder->build(a, {}, stream);
    cuda_check(cudaStreamSynchronize(stream), "packing");
    result.different = differences(packed, expected);
  }
  result.time = time_launches([&](cudaStream_t s) { builder->build(a, {}, s); }, rule, stream);
  return result;
}

}  // namespace tessera
