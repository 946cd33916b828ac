// The operands of a product of row_spgemm on the device: CSR with offsets in 32 bits, and values in
// the product's type.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "formats/base/device_memory.hpp"
#include "formats/base/matrix.hpp"
#include "kernels/gpu_spgemm.hpp"
#include "kernels/spgemm/row/tasks.cuh"

namespace tessera::row_spgemm {

template <class Value>
class Operands {
 public:
  Operands(const CsrMatrix& a, const CsrMatrix& b) : a_(a) {
    if (&a != &b) b_.emplace(b);
    const Narrow& right = b_ ? *b_ : a_;
    view_ = {.rows = a.rows,
             .rows_of_b_count = b.rows,
             .cols = b.cols,
             .nonzeros_of_a = a.nnz(),
             .nonzeros_of_b = b.nnz(),
             .many = thresholds_for(a.nnz(), b.nnz(), b.rows),
             .a_offsets = a_.offsets.data(),
             .a_cols = a_.cols.data(),
             .a_values = nullptr,
             .b_offsets = right.offsets.data(),
             .b_cols = right.cols.data(),
             .b_values = nullptr,
             .rows_of_b = nullptr,
             .ranges_of_b = nullptr,
             .words_of_b = nullptr,
             .places_of_b = nullptr};
    view_.many.sum_size = sizeof(Value);
    if constexpr (std::is_same_v<Value, float>) view_ = values_of(view_);
  }

  /// What an analysis reads, with the values where they are in FP32.
  OperandsView& view() { return view_; }
  const OperandsView& view() const { return view_; }

  /// The operands of an analysis with the values.
  OperandsOf<Value> values_of(const OperandsView& of) const {
    return with_values(of, a_.values.data(), (b_ ? *b_ : a_).values.data());
  }

  /// Replaces the values, as GpuSparseProduct::set_values() does.
  void set_values(std::span<const Value> a, std::span<const Value> b) {
    require_values(a.size(), b.size(), a_.values.size(), b_ ? b_->values.size() : 0);
    a_.values.upload(a);
    if (b_) b_->values.upload(b);
  }

 private:
  struct Narrow {
    explicit Narrow(const CsrMatrix& matrix)
        : offsets(copied<std::int32_t>(matrix.row_offsets)),
          cols(matrix.col_indices),
          values(copied<Value>(matrix.values)) {}

    template <class To, class From>
    static std::vector<To> copied(const Array<From>& from) {
      return {from.begin(), from.end()};
    }

    DeviceArray<std::int32_t> offsets;  // [rows + 1]
    DeviceArray<std::int32_t> cols;     // [nnz]
    DeviceArray<Value> values;          // [nnz]
  };

  Narrow a_;
  std::optional<Narrow> b_;  // empty where B is A
  OperandsView view_ = {};
};

}  // namespace tessera::row_spgemm
