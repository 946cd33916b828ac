// The tensor-core model against dot products recorded on real GPUs (../shared/data/vectors, from
// north-numerical-computing/MATLAB-tensor-core): every TF32 set, every vector.

#include <doctest/doctest.h>

#include <bit>
#include <map>

#include "formats/io/npy.hpp"
#include "kernels/tensor_core.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

/// An array of FP32 bit patterns, [count * depth].
struct Patterns {
  std::int64_t depth = 0;
  std::vector<float> values;
};

std::map<std::string, Patterns> read_vectors(const std::string& path) {
  std::map<std::string, Patterns> arrays;
  ArchiveReader archive(path, ArchiveReader::Kind::kZip);
  while (archive.next()) {
    NpyReader reader(archive, path + ": " + archive.member());
    Patterns& patterns = arrays[archive.member()];
    patterns.depth = reader.header().shape.at(1);
    for (const std::int64_t pattern : reader.offsets())
      patterns.values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(pattern)));
  }
  return arrays;
}

struct Mismatches {
  std::int64_t compared = 0, different = 0;
};

Mismatches compare(const std::map<std::string, Patterns>& vectors, const FusedStep& step) {
  const Patterns& a = vectors.at("a.npy");
  const std::vector<float>& b = vectors.at("b.npy").values;
  const std::vector<float>& c = vectors.at("c_fp32.npy").values;
  const std::vector<float>& d = vectors.at("d_fp32.npy").values;
  Mismatches mismatches;
  for (std::size_t v = 0; v < d.size(); ++v) {
    const std::size_t first = v * static_cast<std::size_t>(a.depth);
    const auto size = static_cast<std::size_t>(a.depth);
    float sum = c[v];
    for (std::size_t k = 0; k < size; k += static_cast<std::size_t>(step.products)) {
      const std::size_t count = std::min(size - k, static_cast<std::size_t>(step.products));
      sum = fused_dot_add(step, std::span(a.values).subspan(first + k, count),
                          std::span(b).subspan(first + k, count), sum);
    }
    ++mismatches.compared;
    mismatches.different += std::bit_cast<std::uint32_t>(sum) != std::bit_cast<std::uint32_t>(d[v]);
  }
  return mismatches;
}

TEST_CASE("the model gives the bits that TF32 tensor cores were recorded with") {
  const std::map<std::string, std::string> generation_of{
      {"A100", "ampere"}, {"A2", "ampere"}, {"Ada", "ada"}, {"H100", "hopper"}, {"H200", "hopper"}};

  for (const auto& [gpu, generation] : generation_of) {
    const std::string path = shared_path("data/vectors/" + gpu + "_tf32.npz");
    if (path.empty()) return;

    const Mismatches found =
        compare(read_vectors(path), find_generation(generation).step(MmaType::kTf32));

    CAPTURE(gpu);
    CHECK(found.compared == 5000);
    CHECK(found.different == 0);
  }
}

TEST_CASE("the recorded vectors tell the generations apart") {
  const std::string path = shared_path("data/vectors/H200_tf32.npz");
  if (path.empty()) return;

  const Mismatches found =
      compare(read_vectors(path), find_generation("ampere").step(MmaType::kTf32));

  CHECK(found.different > 0);
}

}  // namespace
}  // namespace tessera
