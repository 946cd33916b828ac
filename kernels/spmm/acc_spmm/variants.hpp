// The kernels of acc_spmm that are compiled: one table, which refuses options that have no kernel
// and selects the kernel of those that have one.
#pragma once

#include <array>
#include <cstddef>

#include "kernels/device/copy_cache.hpp"
#include "kernels/device/store_operator.hpp"
#include "kernels/spmm/acc_spmm/schedule.hpp"
#include "kernels/tensor_core/precision.hpp"

namespace tessera::acc_spmm {

/// How rows of B reach the warps.
enum class Pipeline {
  kStaged,     // whole rows to stages in shared memory, by asynchronous copies
  kRegisters,  // to the registers of the lanes that multiply them
  // The same, with two buffers in shared memory for TC blocks of A:
  kLeastBubble,  // rows of B one TC block ahead
  kDtc,          // rows of B when they are multiplied
};

/// The cache operators of loads and copies (PTX ISA, "Cache Operators"; Acc-SpMM, table 1).
enum class Cache {
  kL1,       // ca
  kL2,       // cg: rows of B past the L1
  kDefault,  // none: what CUDA takes, ca for loads and cg for copies of 16 bytes
};

/// The operator of copies of 16 bytes.
constexpr CopyCache copy_cache(Cache cache) {
  return cache == Cache::kL1 ? CopyCache::kL1 : CopyCache::kL2;
}

/// One compiled kernel.
struct Variant {
  Pipeline pipeline;
  Scope scope;  // of the buffers of least_bubble and dtc
  NonzeroEncoding encoding;
  bool equal_shares;  // a warp computes the tasks of a share, else one task
  int stages;         // TC blocks of a warp in shared memory (staged)
  Cache cache;        // for rows of B, where they are aligned
  bool any_store;     // the cache operator of stores is a run-time choice, else write back
  Tf32Precision precision = Tf32Precision::kRounded;
  bool promotes = false;  // adds the accumulators to FP32 registers at intervals
  int groups = 1;         // groups of 32 columns of a warp
  bool aligned = true;    // rows of B and C begin at multiples of 16 bytes

  friend constexpr bool operator==(const Variant&, const Variant&) = default;
};

/// A row of the table: a combination of options that is compiled.
struct CompiledOptions {
  Variant variant;      // its last four members are the choices of each row
  bool all_precisions;  // else tf32 without promotion alone
};

constexpr auto kCompiledOptions = [] {
  using enum Pipeline;
  using enum Scope;
  using enum NonzeroEncoding;
  using enum Cache;
  return std::to_array<CompiledOptions>({
      // pipeline, scope, encoding, equal shares, stages, cache, any store | all precisions
      {{kStaged, kWarp, kBitmap, false, 2, kL2, false}, true},
      {{kStaged, kWarp, kBitmap, false, 2, kL2, true}, false},
      {{kStaged, kWarp, kBitmap, false, 2, kL1, false}, false},
      {{kStaged, kWarp, kBitmap, false, 3, kL2, false}, false},
      {{kStaged, kWarp, kBitmap, false, 3, kL1, false}, false},
      {{kStaged, kWarp, kBitmap, false, 4, kL2, false}, false},
      {{kStaged, kWarp, kBitmap, false, 4, kL1, false}, false},
      {{kStaged, kWarp, kBitmap, true, 2, kL2, false}, false},
      {{kStaged, kWarp, kBytes, false, 2, kL2, false}, false},
      {{kRegisters, kWarp, kBitmap, false, 2, kL1, false}, true},
      {{kRegisters, kWarp, kBitmap, false, 2, kL1, true}, false},
      {{kLeastBubble, kWarp, kBitmap, false, 2, kL1, true}, false},
      {{kLeastBubble, kWarp, kBitmap, false, 2, kL2, true}, false},
      {{kLeastBubble, kWarp, kBitmap, true, 2, kL1, true}, false},
      {{kLeastBubble, kWarp, kBytes, false, 2, kL1, true}, false},
      {{kLeastBubble, kWarp, kBytes, true, 2, kL1, true}, false},
      {{kDtc, kWarp, kBitmap, false, 2, kL1, true}, false},
      {{kDtc, kWarp, kBitmap, false, 2, kL2, true}, false},
      {{kDtc, kWarp, kBitmap, true, 2, kL1, true}, false},
      {{kDtc, kWarp, kBytes, false, 2, kL1, true}, false},
      {{kDtc, kWarp, kBytes, true, 2, kL1, true}, false},
      {{kLeastBubble, kBlock, kBitmap, false, 2, kL1, true}, false},
      {{kLeastBubble, kBlock, kBitmap, true, 2, kL1, true}, false},
      {{kLeastBubble, kBlock, kBitmap, false, 2, kDefault, false}, false},
      {{kLeastBubble, kBlock, kBitmap, true, 2, kDefault, false}, false},
      {{kLeastBubble, kBlock, kBytes, false, 2, kL1, true}, false},
      {{kLeastBubble, kBlock, kBytes, true, 2, kL1, true}, false},
      {{kDtc, kBlock, kBitmap, false, 2, kL1, true}, false},
      {{kDtc, kBlock, kBitmap, true, 2, kL1, true}, false},
      {{kDtc, kBlock, kBitmap, false, 2, kDefault, false}, false},
      {{kDtc, kBlock, kBytes, false, 2, kDefault, false}, false},
  });
}();

/// The cache of cache = auto.
constexpr Cache default_cache(Pipeline pipeline) {
  return pipeline == Pipeline::kStaged ? Cache::kL2 : Cache::kL1;
}

/// The first row of the table that covers `wanted`, whose `any_store` is true for another store
/// than write back; null where none does.
constexpr const CompiledOptions* find_compiled(const Variant& wanted) {
  const bool plain = wanted.precision == Tf32Precision::kRounded && !wanted.promotes;
  for (const CompiledOptions& row : kCompiledOptions) {
    const Variant& v = row.variant;
    if (v.pipeline == wanted.pipeline && v.scope == wanted.scope && v.encoding == wanted.encoding &&
        v.equal_shares == wanted.equal_shares && v.stages == wanted.stages &&
        v.cache == wanted.cache && (v.any_store || !wanted.any_store) &&
        (row.all_precisions || plain))
      return &row;
  }
  return nullptr;
}

/// The kernel for operands that are not aligned: its loads, copies and stores are of single floats,
/// which have no choice of cache, stages and store operator.
constexpr Variant without_alignment(Variant variant) {
  variant.aligned = false;
  variant.stages = 2;
  variant.cache = default_cache(variant.pipeline);
  variant.any_store = false;
  return variant;
}

/// The compiled kernel for `wanted`, which the table covers.
constexpr Variant compiled_variant(const Variant& wanted) {
  Variant variant = wanted;
  variant.any_store = find_compiled(wanted)->variant.any_store;
  return wanted.aligned ? variant : without_alignment(variant);
}

struct VariantList {
  std::array<Variant, 128> variants = {};
  std::size_t count = 0;

  constexpr void add(const Variant& variant) {
    for (std::size_t i = 0; i < count; ++i)
      if (variants[i] == variant) return;
    variants[count++] = variant;
  }
};

/// Every kernel of a pipeline.
constexpr VariantList list_variants(Pipeline pipeline) {
  VariantList list;
  for (const CompiledOptions& row : kCompiledOptions) {
    if (row.variant.pipeline != pipeline) continue;
    for (const Tf32Precision precision :
         {Tf32Precision::kRounded, Tf32Precision::kRaw, Tf32Precision::kSplit}) {
      for (const bool promotes : {false, true}) {
        if (!row.all_precisions && (precision != Tf32Precision::kRounded || promotes)) continue;
        for (const int groups : {1, 2, 4}) {
          if (pipeline != Pipeline::kStaged && groups > 1) continue;
          Variant variant = row.variant;
          variant.precision = precision, variant.promotes = promotes, variant.groups = groups;
          list.add(variant);
          list.add(without_alignment(variant));
        }
      }
    }
  }
  return list;
}

}  // namespace tessera::acc_spmm
