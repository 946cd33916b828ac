// The verdict on one case of the attack, and its reduction to the least that still fails.
//
// On a CPU the emulation is compared with fp64 truth within the bound of the kernel's arithmetic,
// and the packed matrix is unpacked; with a GPU the launch is compared with the emulation, bit by
// bit.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "experiments/backends/check_result.hpp"
#include "tests/attack/attack_case.hpp"

namespace tessera {

/// alpha A B + beta C as the kernel's emulation has it, from A B where alpha and beta change
/// nothing: the results of SpmmKernel::emulate_scaled().
std::vector<DenseMatrix> scaled_products(const AttackCase& given, const DenseMatrix& product);

/// The kernel under attack; a test of the checker replaces one of its functions.
struct Attacked {
  std::function<DenseMatrix(const AttackCase&)> emulate;  // A B; throws Unsupported
  /// alpha A B + beta C; empty without a GPU.
  std::function<LaunchOutput(const AttackCase&)> launch = {};
  std::string generation = {};  // of the GPU, which takes the place of the case's own
  std::function<std::vector<DenseMatrix>(const AttackCase&, const DenseMatrix&)> scale =
      scaled_products;
};

/// A B as the kernel's emulation has it.
DenseMatrix emulated(const AttackCase& given);

/// The kernels of this build; launches only where this process has a GPU.
Attacked registered_kernels();

/// The launches of a build with the CUDA half, and the tensor cores of its GPU; empty where there
/// is none. The CUDA half puts its own function here before main.
struct GpuHalf {
  std::function<LaunchOutput(const AttackCase&)> launch;
  std::string generation;
};
std::function<std::optional<GpuHalf>()>& gpu_half();

struct Verdict {
  std::string fault;   // of which check; empty when all passed
  std::string reason;  // with its numbers
  bool compared =
      false;  // false where nothing is emulated or launched: only the packing was checked
};

/// Throws an Error for parameters that the kernel does not take.
Verdict attack(const AttackCase& given, const Attacked& kernels);

/// The smallest case found that fails in the same check: fewer rows, columns, nonzeros and columns
/// of B, ones as values, default parameters. It makes at most `attempts` attacks.
AttackCase shrunk(const AttackCase& failing, const Attacked& kernels, int attempts = 4000);

}  // namespace tessera
