// Plans of an SDDMM of the C interface on a GPU: the bits of the emulation, new values of A, and a
// description.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "experiments/machine/gpu_info.hpp"
#include "formats/base/device_memory.hpp"
#include "kernels/abi/tessera.h"
#include "kernels/sddmm/plan/sddmm_plan.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

bool no_gpu() {
  const std::string why = gpu_unavailable();
  if (!why.empty()) MESSAGE("skipped: " << why);
  return !why.empty();
}

TEST_CASE("a plan of an SDDMM of the C interface gives the bits of the C++ plan's emulation") {
  if (no_gpu()) return;
  const CsrMatrix a = random_sparse(120, 90, 0.1, 1);
  const tessera_csr csr{a.rows,         a.cols, a.nnz(), a.row_offsets.data(), a.col_indices.data(),
                        a.values.data()};
  const DenseMatrix x = random_dense(a.rows, 40, 2), y = random_dense(a.cols, 40, 3);
  const DeviceArray<float> of_x(x.values), of_y(y.values);
  for (const char* kernel : {"tessera_sddmm", "rows_sddmm(run=8)"}) {
    CAPTURE(kernel);
    tessera_sddmm_options options;
    tessera_sddmm_options_init(&options);
    options.num_kernels = 1, options.kernels = &kernel, options.scales_by_a = 1;
    tessera_sddmm_plan* plan = nullptr;
    REQUIRE_MESSAGE(tessera_sddmm_plan_create(&csr, 40, &options, &plan) == TESSERA_OK,
                    tessera_last_error());
    std::vector<float> twice(a.values.begin(), a.values.end());
    for (float& value : twice) value *= 2;  // exact, also in S
    const DeviceArray<float> values(twice);
    DeviceArray<float> s(std::vector<float>(static_cast<std::size_t>(a.nnz()), -7));
    CHECK(tessera_sddmm_plan_set_values(plan, values.data(), nullptr) == TESSERA_OK);
    CHECK(tessera_sddmm_plan_run(plan, of_x.data(), of_y.data(), s.data(), nullptr) == TESSERA_OK);
    cuda_check(cudaDeviceSynchronize(), "running a plan");
    const std::string name = std::string(kernel).substr(0, std::string(kernel).find('('));
    SddmmPlanOptions same;
    same.candidates = {{name}}, same.scales_by_a = true;
    std::vector<float> expected = SddmmPlan(a, 40, same).emulate(x, y);
    for (float& value : expected) value *= 2;
    CHECK(s.download() == expected);
    CHECK(tessera_sddmm_plan_run(plan, nullptr, of_y.data(), s.data(), nullptr) == TESSERA_INVALID);

    char* text = nullptr;
    REQUIRE(tessera_sddmm_plan_describe(plan, &text) == TESSERA_OK);
    const auto json = nlohmann::json::parse(text);
    tessera_free(text);
    CHECK(json["nnz"] == a.nnz());
    CHECK(json["k"] == 40);
    CHECK(json["scales_by_a"] == true);
    CHECK(json["kernel"].get<std::string>().find(name) == 0);
    tessera_sddmm_plan_destroy(plan);
  }
}

}  // namespace
}  // namespace tessera
