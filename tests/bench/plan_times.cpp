// What plans of tessera_spmm take and bring in an order found on the GPU, a line of a table for
// each matrix: a product in the order of the file, in the other one with the rows of C left there
// and written to their places, the time to prepare A, and what plans are expected to decide. Rows
// of C are compared, bit for bit.
//
//     tessera_plan_times N MATRIX...

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <string>
#include <vector>

#include "formats/base/random.hpp"
#include "formats/base/registry.hpp"
#include "formats/io/source.hpp"
#include "kernels/device/median_time.hpp"
#include "kernels/spmm/plan/spmm_plan.hpp"
#include "kernels/spmm/product_counts.hpp"
#include "kernels/spmm_kernel.hpp"
#include "reorder/gpu_reordering.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kProducts[] = {100, 300, 1000, 3000, 10'000, 100'000};

Permutation order_of(const CsrMatrix& a) {
  const DeviceArray<std::int64_t> row_offsets(a.row_offsets);
  const DeviceArray<std::int32_t> col_indices(a.col_indices);
  const StreamBuffer found = Registry<GpuReordering>::instance().make(kGpuOrder)->order(
      {a.rows, a.cols, a.nnz(), row_offsets.data(), col_indices.data()}, nullptr);
  std::vector<std::int32_t> old_of_new(static_cast<std::size_t>(a.rows));
  cuda_check(cudaMemcpy(old_of_new.data(), found.as<void>(),
                        old_of_new.size() * sizeof(std::int32_t), cudaMemcpyDeviceToHost),
             "copying an order from the device");
  return Permutation(std::move(old_of_new));
}

/// The median time of a product, and C.
double time_of(SpmmPlan& plan, const DeviceArray<float>& b, DenseMatrix& c) {
  DeviceArray<float> c_memory(c.values.size());
  const double us = median_us([&] { plan.run(b.data(), c_memory.data()); });
  c.values = c_memory.download();
  return us;
}

void print_times(const std::string& name, std::int64_t n) {
  const CsrMatrix a = load_matrix(name, false).matrix;
  DenseMatrix b(a.cols, n), left(a.rows, n), placed(a.rows, n), own(a.rows, n);
  for (std::size_t i = 0; i < b.values.size(); ++i) b.values[i] = random_signed(1, i);
  const DeviceArray<float> b_memory(b.values);
  const Permutation order = order_of(a);
  const std::vector<SpmmCandidate> kernel = {{kOrderedKernel}};
  SpmmPlan in_file(a, n, {.candidates = kernel});
  SpmmPlan in_order(permute_rows(a, order), n, {.candidates = kernel});
  const double file_us = time_of(in_file, b_memory, own);
  const double left_us = time_of(in_order, b_memory, left);
  double placed_us = 0, preparation_us[2] = {};
  for (double& us : preparation_us) {  // the second time, nothing is loaded or allocated anew
    SpmmPlan plan(a, n, {.candidates = {{kOrderedKernel, {}, {}, kGpuOrder}}});
    us = plan.timings()[0].preparation_us;
    placed_us = time_of(plan, b_memory, placed);
  }
  const bool right = permute_rows(placed, order).values == left.values;

  const WorkCounts counts = product_counts(a, n);
  std::vector<CountedKernel> kernels;
  for (const char* one : {"tessera_spmm", "rows_spmm"})
    kernels.push_back({one, Registry<SpmmKernel>::instance().resolve(one, {}), counts});
  std::string chosen;
  SpmmPreparation last;
  for (const std::int64_t products : kProducts) {
    last = choose_order(kernels, products);
    chosen += last.order.empty() ? ",0" : ",1";
  }
  fmt::print("{},{},{},{:.3f},{:.3f},{:.3f},{:.0f},{:.0f},{:.1f},{:.1f},{:.0f}{},{}\n", name,
             a.nnz(), n, file_us, left_us, placed_us, preparation_us[0], preparation_us[1],
             last.predicted_us, last.predicted_in_order_us, last.predicted_preparation_us, chosen,
             right ? "right" : "WRONG");
  std::fflush(stdout);
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  try {
    tessera::require(argc >= 3, "usage: tessera_plan_times N MATRIX...");
    fmt::print(
        "matrix,nnz,n,file_us,left_us,placed_us,first_preparation_us,preparation_us,"
        "predicted_file_us,predicted_in_order_us,predicted_preparation_us");
    for (const std::int64_t products : tessera::kProducts) fmt::print(",ordered_at_{}", products);
    fmt::print(",rows\n");
    for (int i = 2; i < argc; ++i) tessera::print_times(argv[i], std::stoll(argv[1]));
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "tessera_plan_times: {}\n", error.what());
    return 1;
  }
}
