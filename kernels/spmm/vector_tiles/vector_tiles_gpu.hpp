// Products of vectors on the device: the upload, the launches and the registered kernel that
// flash_spmm and magicube share.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "formats/base/registry.hpp"
#include "kernels/gpu_spmm.hpp"
#include "kernels/spmm/vector_tiles/vector_tiles.hpp"

namespace tessera::vector_tiles {

/// Uploads `a` for products with a B of n columns. `a` is read only while this runs. Throws
/// Unsupported for products that a grid cannot hold.
std::unique_ptr<GpuMultiplication> upload(const Vectors& a, const Plan& plan, std::int64_t n);

/// The device half of a kernel with these Options: FlashSpmmOptions or MagicubeOptions.
template <class Options>
class GpuVectorTiles final : public GpuSpmm {
 public:
  explicit GpuVectorTiles(Options options) : options_(std::move(options)) {}

  std::unique_ptr<GpuMultiplication> upload(const PackedMatrix& packed,
                                            std::int64_t n) const override {
    const Vectors a(packed_as<typename Options::Packed>(packed));
    return vector_tiles::upload(a, options_.plan(a, n), n);
  }

 private:
  Options options_;
};

/// The registry entry of the device half of `kernel`.
template <class Options>
Entry<GpuSpmm> gpu_entry(const std::string& kernel) {
  return {.name = kernel, .summary = "device half of " + kernel, .make = [](const Params& params) {
            return std::make_unique<GpuVectorTiles<Options>>(Options(params));
          }};
}

}  // namespace tessera::vector_tiles
