// The limits of described GPUs, and the thread blocks that an SM holds at a time.
#include "model/described_limits.hpp"

#include <doctest/doctest.h>

#include <string>

namespace tessera {
namespace {

TEST_CASE("the limits of an H200 are those that a kernel plans for until it is told another GPU") {
  CHECK(described_limits(find_device("h200")) == kH200Limits);
}

TEST_CASE("the system reserves shared memory for a thread block from Ampere on") {
  CHECK(described_limits(find_device("a100-80gb")).reserved_shared == 1024);
  CHECK(described_limits(find_device("titan-rtx")).reserved_shared == 0);
}

TEST_CASE("the scarcest resource of an SM limits its thread blocks, in units of allocation") {
  struct Case {
    std::int64_t threads, registers, shared_bytes;
    Residency expected;  // on an H200
  };
  const Case cases[] = {
      {32, 24, 0, {32, "thread blocks"}},
      {512, 24, 0, {4, "warps"}},
      {256, 41, 0, {5, "registers"}},  // a warp has 1536 of them, and 1312 would give 6
      {32, 24, 9216, {22, "shared memory"}},
      {32, 24, 14500, {14, "shared memory"}},  // 15616 bytes each, and 15524 would give 15
      {32, 24, 300'000, {0, "shared memory"}},
  };
  for (const Case& c : cases) {
    CAPTURE(c.threads);
    CAPTURE(c.shared_bytes);
    const Residency found = residency(kH200Limits, c.threads, c.registers, c.shared_bytes);
    CHECK(found.thread_blocks == c.expected.thread_blocks);
    CHECK(std::string(found.limit) == c.expected.limit);
    CHECK(resident_thread_blocks(kH200Limits, c.threads, c.registers, c.shared_bytes) ==
          132 * c.expected.thread_blocks);
  }
}

}  // namespace
}  // namespace tessera
