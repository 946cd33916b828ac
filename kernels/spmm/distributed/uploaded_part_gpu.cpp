#include "kernels/spmm/distributed/uploaded_part.hpp"

#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"
#include "kernels/device/median_time.hpp"

namespace tessera {

UploadedPart upload_part(const std::string& kernel, const Params& params,
                         const PackedMatrix& packed, std::int64_t n) {
  const auto& halves = Registry<GpuSpmm>::instance();
  require<Unsupported>(halves.contains(kernel), "{} has no device half", kernel);
  return {halves.make(kernel, params)->upload(packed, n), stats(packed).bytes};
}

std::string choose_algorithm(UploadedPart& uploaded, std::int64_t rows, std::int64_t cols,
                             std::int64_t n, const Storage& storage) {
  const std::vector<std::string> names = uploaded.gpu->candidates();
  if (names.size() == 1) {
    uploaded.gpu->prepare(0, {nullptr, nullptr}, nullptr);
    return names[0];
  }
  DeviceArray<std::byte> b(static_cast<std::size_t>(cols * n) * bytes_of(storage.b));
  DeviceArray<std::byte> c(static_cast<std::size_t>(rows * n) * bytes_of(storage.c));
  cuda_check(cudaMemset(b.data(), 0x3c, b.size()), "filling B");
  const Operands operands{b.data(), c.data()};
  int best = -1;
  double best_us = 0;
  for (int i = 0; i < static_cast<int>(names.size()); ++i) try {
      uploaded.gpu->prepare(i, operands, nullptr);
      const double us = median_us([&] { uploaded.gpu->launch(i, operands, nullptr); });
      if (best < 0 || us < best_us) best = i, best_us = us;
    } catch (const Unsupported&) {
    }
  require<Unsupported>(best >= 0, "none of the library's algorithms takes this case");
  uploaded.gpu->prepare(best, operands, nullptr);
  uploaded.algorithm = best;
  return names[static_cast<std::size_t>(best)];
}

}  // namespace tessera
