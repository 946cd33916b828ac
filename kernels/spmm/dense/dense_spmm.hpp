// The options of dense_spmm, for its host and its device half.
#pragma once

#include "formats/base/params.hpp"
#include "kernels/spmm/dense/schedule.hpp"
#include "kernels/storage_params.hpp"
#include "kernels/tensor_core/precision.hpp"

namespace tessera::dense_spmm {

class DenseSpmmOptions {
 public:
  explicit DenseSpmmOptions(const Params& params)
      : storage_(storage_of(params)),
        precision_(find_precision(
            storage_.b == ElementType::kFp32 ? "tf32_even" : std::string(name_of(storage_.b)))) {}

  Storage storage() const { return storage_; }
  const Precision& precision() const { return precision_; }
  int element_bytes() const { return static_cast<int>(bytes_of(storage_.b)); }
  int step_depth() const { return depth_of_step(element_bytes()); }
  Schedule schedule(std::int64_t rows, std::int64_t cols, std::int64_t n) const {
    return make_schedule(rows, cols, n, element_bytes());
  }

 private:
  Storage storage_;
  Precision precision_;
};

}  // namespace tessera::dense_spmm
