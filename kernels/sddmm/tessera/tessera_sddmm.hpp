// The options of tessera_sddmm and its tasks, for its host and its device half.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/base/params.hpp"
#include "formats/mosaic.hpp"
#include "kernels/sddmm/shared/sddmm_options.hpp"
#include "kernels/sddmm/tessera/schedule.hpp"
#include "kernels/tensor_core/precision.hpp"

namespace tessera::tessera_sddmm {

class TesseraSddmmOptions : public sddmm::SddmmOptions {
 public:
  explicit TesseraSddmmOptions(const Params& params);

  /// That of FP32 operands, or the type in which X and Y are stored.
  const Precision& precision() const { return precision_; }
  bool splits() const { return precision_.parts > 1; }
  int depth() const { return storage.b == ElementType::kFp32 ? 8 : 16; }

  Schedule schedule(std::int64_t k) const { return Schedule::of(k * bytes(), splits()); }
  /// The tasks of a product, in the order of their windows; windows without TC blocks have none.
  std::vector<Task> tasks(const Mosaic& a, std::int64_t k) const;

 private:
  Precision precision_;
  std::int64_t max_tiles_;  // TC blocks of a task; 0: by the matrix
};

std::vector<ParamSpec> params();

/// Nonzeros of row `row` of its window in a TC block.
std::uint32_t nonzeros_of_row(const Mosaic& a, std::uint32_t tile, int row);

}  // namespace tessera::tessera_sddmm
