// Orders, formats, emulation and error measures in the C interface.

#include <algorithm>
#include <chrono>
#include <numeric>

#include "experiments/backends/check_result.hpp"
#include "experiments/backends/find_order.hpp"
#include "experiments/run/describe.hpp"
#include "formats/base/stop.hpp"
#include "kernels/abi/guarded.hpp"
#include "kernels/abi/matrices.hpp"
#include "kernels/abi/product.hpp"

using namespace tessera;
using namespace tessera::abi;

tessera_status tessera_reorder(const tessera_csr* a, const char* reordering, int32_t* rows,
                               int32_t* cols, char** json) {
  if (json != nullptr) *json = nullptr;
  return guarded([&] {
    // The order so far is a result: no loop is to end the call without one.
    const StopFlag flag = stop_flag();
    const StopFlagScope unstopped(nullptr);
    const CsrMatrix matrix = view_of(a);
    require(rows != nullptr || matrix.rows == 0, "rows is a null pointer");
    require(cols != nullptr || matrix.cols == 0, "cols is a null pointer");
    const Variant variant = variant_of<Reordering>(reordering);
    Watch watch([flag] { return flag != nullptr && *flag != 0; });
    const FoundOrder found = compute_order(*make_registered<Reordering>(variant), matrix, watch);
    std::ranges::copy(found.order.rows.old_of_new(), rows);
    if (found.order.cols)
      std::ranges::copy(found.order.cols->old_of_new(), cols);
    else
      std::iota(cols, cols + matrix.cols, 0);
    if (json == nullptr) return;
    *json = text_of({{"reordering", to_text(variant)},
                     {"reorder_s", found.seconds},
                     {"reorder_threads", found.threads},
                     {"moves_columns", found.order.cols.has_value()},
                     {"cut_short", found.cut_short},
                     {"chosen", found.order.chosen}});
  });
}

tessera_status tessera_pack(const tessera_csr* a, const char* format, char** json) {
  if (json != nullptr) *json = nullptr;
  return guarded([&] {
    require_pointer(json, "json");
    const CsrMatrix matrix = view_of(a);
    const Variant variant = variant_of<Format>(format);
    const auto made = make_registered<Format>(variant);
    const auto start = std::chrono::steady_clock::now();
    const auto packed = made->pack(matrix);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    Json described = describe_packed(*packed);
    described["format"] = to_text(variant);
    described["pack_s"] = took.count();
    described["round_trip_exact"] = round_trip_fault(*packed, matrix).empty();
    *json = text_of(described);
  });
}

tessera_status tessera_emulate(const tessera_csr* a, int64_t n, const char* kernel,
                               const char* format, const char* device, const float* b, int64_t ldb,
                               float* c, int64_t ldc) {
  return guarded([&] {
    const CsrMatrix matrix = view_of(a);
    check_operand("C", c, matrix.rows, n, ldc);
    const DenseMatrix right = read_dense("B", b, matrix.cols, n, ldb);
    const NamedProduct product = named_product(matrix, n, kernel, format, device);
    write_dense(emulate_c(*product.made, *product.packed, right,
                          find_generation(product.device.generation)),
                "C", c, ldc);
  });
}

tessera_status tessera_errors(const tessera_csr* a, int64_t n, const char* kernel,
                              const char* format, const char* device, const float* b, int64_t ldb,
                              const float* c, int64_t ldc, char** json) {
  if (json != nullptr) *json = nullptr;
  return guarded([&] {
    require_pointer(json, "json");
    const CsrMatrix matrix = view_of(a);
    const DenseMatrix right = read_dense("B", b, matrix.cols, n, ldb);
    const DenseMatrix result = read_dense("C", c, matrix.rows, n, ldc);
    // csr_spmm states no more than sums in FP32, in any order.
    const NamedProduct product =
        named_product(matrix, n, kernel == nullptr ? "csr_spmm" : kernel, format, device);
    const CheckedResult checked = check_result(matrix, right, result,
                                               {.kernel = *product.made,
                                                .a = *product.packed,
                                                .rows = Permutation::identity(matrix.rows),
                                                .generation = product.device.generation});
    Json measures = checked.check ? to_json(*checked.check) : Json::object();
    measures["ok"] = checked.reason.empty();
    measures["reason"] = checked.reason;
    *json = text_of(measures);
  });
}
