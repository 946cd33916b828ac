// The tensor-core model against dot products recorded on real GPUs (../shared/data/vectors, from
// north-numerical-computing/MATLAB-tensor-core): every set, every vector, both accumulators.

#include <doctest/doctest.h>

#include <bit>
#include <map>

#include "formats/io/npy.hpp"
#include "kernels/tensor_core/tensor_core.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

/// An array of FP32 bit patterns, [count * depth].
struct Patterns {
  std::int64_t depth = 0;
  std::vector<float> values;
};
using Vectors = std::map<std::string, Patterns>;

Vectors read_vectors(const std::string& path) {
  Vectors arrays;
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

Mismatches compare(const Vectors& vectors, const std::string& result, const FusedStep& step) {
  const Patterns& a = vectors.at("a.npy");
  const std::vector<float>& b = vectors.at("b.npy").values;
  const std::vector<float>& c = vectors.at("c_fp32.npy").values;
  const std::vector<float>& d = vectors.at(result).values;
  const auto depth = static_cast<std::size_t>(a.depth);
  const auto products = static_cast<std::size_t>(step.products);
  const bool fp16 = step.type == MmaType::kFp16Fp16;
  Mismatches mismatches;
  for (std::size_t v = 0; v < d.size(); ++v) {
    float sum = fp16 ? convert(c[v], Conversion::kFp16) : c[v];
    for (std::size_t k = 0; k < depth; k += products) {
      const std::size_t count = std::min(depth - k, products);
      sum = fused_dot_add(step, std::span(a.values).subspan(v * depth + k, count),
                          std::span(b).subspan(v * depth + k, count), sum);
    }
    ++mismatches.compared;
    mismatches.different += std::bit_cast<std::uint32_t>(sum) != std::bit_cast<std::uint32_t>(d[v]);
  }
  return mismatches;
}

const std::map<std::string, std::string> kGenerations{
    {"V100", "volta"},  {"A100", "ampere"}, {"A2", "ampere"},     {"Ada", "ada"},
    {"H100", "hopper"}, {"H200", "hopper"}, {"B200", "blackwell"}};
const std::map<std::string, MmaType> kTypes{
    {"tf32", MmaType::kTf32}, {"fp16", MmaType::kFp16}, {"bf16", MmaType::kBf16}};

TEST_CASE("the model gives the bits that tensor cores of six generations were recorded with") {
  int sets = 0;
  for (const auto& [gpu, name] : kGenerations) {
    for (const auto& [type_name, type] : kTypes) {
      const Generation& generation = find_generation(name);
      if (!generation.steps.contains(type)) continue;
      const std::string path = shared_path("data/vectors/" + gpu + "_" + type_name + ".npz");
      if (path.empty()) return;
      CAPTURE(gpu);
      CAPTURE(type_name);
      const Vectors vectors = read_vectors(path);

      const Mismatches found = compare(vectors, "d_fp32.npy", generation.step(type));

      CHECK(found.compared == 5000);
      CHECK(found.different == 0);
      ++sets;
      if (type != MmaType::kFp16) continue;
      const Mismatches fp16 = compare(vectors, "d_fp16.npy", generation.step(MmaType::kFp16Fp16));
      CHECK(fp16.compared == 5000);
      CHECK(fp16.different == 0);
      ++sets;
    }
  }
  CHECK(sets == 7 + 6 + 6 + 7);  // FP16 with FP32 results, TF32, BF16, FP16 with FP16 results
}

TEST_CASE("the recorded vectors distinguish the generations") {
  const std::string path = shared_path("data/vectors/H200_tf32.npz");
  if (path.empty()) return;

  const Mismatches found =
      compare(read_vectors(path), "d_fp32.npy", find_generation("ampere").step(MmaType::kTf32));

  CHECK(found.different > 0);
}

}  // namespace
}  // namespace tessera
