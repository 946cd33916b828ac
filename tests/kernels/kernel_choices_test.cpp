// The choices that the device tests run, as far as they can be tested without a device.

#include "tests/kernel_choices.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>

#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"
#include "formats/format.hpp"
#include "kernels/spmm_kernel.hpp"
#include "kernels/work.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

bool is_library(const std::string& kernel) { return kernel == "cublas" || kernel == "cusparse"; }

TEST_CASE(
    "every choice of the device tests is a kernel, says what it does, and is emulated or not") {
  const CsrMatrix a = random_sparse(203, 157, 0.07, 61);

  for (const Choice& choice : kernel_choices()) {
    CAPTURE(choice.kernel);
    const std::string chosen = text_of(choice.params) + text_of(choice.format);
    CAPTURE(chosen);
    const DenseMatrix b = random_dense(a.cols, std::min<std::int64_t>(12, choice.most_cols), 62);
    std::unique_ptr<SpmmKernel> kernel;
    REQUIRE_NOTHROW(kernel = Registry<SpmmKernel>::instance().make(choice.kernel, choice.params));
    const auto packed = Registry<Format>::instance().make(kernel->format(), choice.format)->pack(a);

    if (is_library(choice.kernel)) {
      CHECK_THROWS_AS(kernel->work(*packed, b.cols), Unsupported);
    } else {
      CHECK(!kernel->work(*packed, b.cols).thread_blocks.empty());
      CHECK(kernel->terms_per_row(*packed).size() == static_cast<std::size_t>(a.rows));
    }
    if (choice.emulated)
      CHECK(kernel->emulate(*packed, b, find_generation("hopper")).rows == a.rows);
  }
}

}  // namespace
}  // namespace tessera
