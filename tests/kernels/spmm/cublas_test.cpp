// How the cuBLAS baseline lays out A and B, which needs no device.

#include "kernels/spmm/vendor/cublas.hpp"

#include <doctest/doctest.h>

#include "formats/base/registry.hpp"
#include "kernels/spmm_kernel.hpp"

namespace tessera {
namespace {

cublas::Layout layout(const char* precision, const char* pad, std::int64_t cols,
                      std::int64_t rows = 10) {
  const Params params = Registry<SpmmKernel>::instance().resolve(
      "cublas", {{"precision", std::string(precision)}, {"pad", std::string(pad)}});
  return cublas::CublasOptions(params).layout(rows, cols, 8);
}

TEST_CASE("cuBLAS reads rows of 128 bytes, a K of 16 bytes and a copy of B where K is padded") {
  struct Case {
    const char* precision;
    const char* pad;
    std::int64_t cols, depth, pitch;
    bool b_in_place;
  };
  for (const Case& one :
       {Case{"tf32", "k", 157, 160, 160, false}, Case{"tf32", "k", 161, 164, 192, false},
        Case{"tf32", "k", 164, 164, 192, true}, Case{"tf32", "k", 1, 4, 32, false},
        Case{"tf32", "rows", 161, 161, 192, true}, Case{"tf32", "none", 161, 161, 161, true},
        Case{"fp16", "k", 161, 168, 192, false}, Case{"fp16", "k", 164, 168, 192, false},
        Case{"fp16", "k", 192, 192, 192, false}, Case{"fp16", "rows", 164, 164, 192, false},
        Case{"fp16", "none", 161, 161, 161, false}, Case{"tf32", "k", 0, 0, 0, true}}) {
    CAPTURE(one.precision);
    CAPTURE(one.pad);
    CAPTURE(one.cols);
    const cublas::Layout found = layout(one.precision, one.pad, one.cols);
    CHECK(found.depth == one.depth);
    CHECK(found.pitch == one.pitch);
    CHECK(found.b_in_place == one.b_in_place);
  }
}

TEST_CASE("the memory of a cuBLAS product counts the padding and both copies of B") {
  const cublas::Layout half = layout("fp16", "k", 161);
  CHECK(half.a_bytes() == 2 * 10 * 192);
  CHECK(half.b_bytes() == 2 * 168 * 8);
  CHECK(half.bytes() == 2 * 10 * 192 + 2 * 168 * 8 + 4 * (161 + 10) * 8);

  const cublas::Layout in_place = layout("tf32", "k", 164);
  CHECK(in_place.b_bytes() == 0);
  CHECK(in_place.bytes() == 4 * 10 * 192 + 4 * (164 + 10) * 8);

  const std::int64_t most = 0x7fffffff;
  CHECK(layout("tf32", "k", most, most).bytes() > 1.8e19);  // beyond 64 bits with a sign
}

}  // namespace
}  // namespace tessera
