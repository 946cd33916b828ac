// What a kernel's launches do, in numbers: the only thing of a kernel that a model may see.
//
// A prediction cannot peek at a measurement because this header and warp_trace.hpp hold no code of
// the kernel, and the model folder may include no other header of this one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/warp_trace.hpp"

namespace tessera {

/// Work of one thread block. Bytes are those its own instructions ask for, before any cache.
struct ThreadBlockWork {
  std::int64_t mma = 0;      // MMA instructions, counted per warp
  std::int64_t fma = 0;      // scalar FP32 multiply-adds, counted per lane
  std::int64_t a_bytes = 0;  // reads of the packed A
  std::int64_t b_bytes = 0;  // reads of B
  std::int64_t c_bytes = 0;  // writes of C
  std::int64_t atomics = 0;  // atomic additions to C, counted per value
  std::int64_t barriers = 0;

  friend bool operator==(const ThreadBlockWork&, const ThreadBlockWork&) = default;
};

/// One grid of thread blocks. The launches of a product follow each other.
struct Launch {
  std::string name = {};
  std::int64_t thread_blocks = 0;  // that many of WorkDescription::thread_blocks, in order
  int threads_per_block = 0;
  int registers_per_thread = 0;
  std::int64_t shared_bytes = 0;                  // of a thread block
  std::shared_ptr<const LaunchTrace> trace = {};  // empty: the kernel publishes none
};

struct WorkDescription {
  std::string kernel = {};
  std::string mma_type = {};  // which peak the MMAs run against: "tf32", "fp16", or "" without MMAs
  std::string mma_shape = {};  // "m16n8k8"
  int flops_per_mma = 0;       // multiplications and additions of one MMA instruction
  std::vector<ThreadBlockWork> thread_blocks = {};  // of all launches
  std::vector<Launch> launches = {};
  AddressSpace memory = {};  // where the arrays that the traces touch lie

  // The least they can move through device memory: every operand once.
  std::int64_t footprint_bytes = 0;  // packed A
  std::int64_t b_rows_bytes = 0;     // rows of B that A has a nonzero for
  std::int64_t c_bytes = 0;          // C, written once
  std::int64_t useful_flops = 0;     // 2 nnz N

  ThreadBlockWork total() const {
    ThreadBlockWork sum;
    for (const ThreadBlockWork& block : thread_blocks) {
      sum.mma += block.mma;
      sum.fma += block.fma;
      sum.a_bytes += block.a_bytes;
      sum.b_bytes += block.b_bytes;
      sum.c_bytes += block.c_bytes;
      sum.atomics += block.atomics;
      sum.barriers += block.barriers;
    }
    return sum;
  }
};

/// What C = A B, all three sparse, asks of its kernel, by rows and by 8 x 8 tiles: all that a model
/// of paths sees. Counted on the host from A and B; what would take as long as a product is
/// estimated from some of C's tile rows.
struct SparseProductFigures {
  std::int64_t rows = 0, tile_rows = 0;  // of C
  std::int64_t tile_rows_of_b = 0;
  std::int64_t nonzeros_of_a = 0, nonzeros_of_b = 0;
  std::int64_t nonzeros_of_large_rows = 0;  // of A, in rows of C with more products than a warp
                                            // has lanes
  std::int64_t products = 0;
  std::int64_t tiles_of_a = 0, tiles_of_b = 0;
  std::int64_t tile_products = 0;
  std::int64_t long_tile_products = 0;  // in tile rows of A that tile_spgemm calls long
  bool is_square = false;               // B is A: its tiles are made once

  // A task of tile_spgemm looks at some of its columns of C at a time, and each time at all tiles
  // of its tile row of A.
  std::int64_t looks = 0, tiles_looked_at = 0;

  // What is done one after another.
  std::int64_t longest_row_of_a = 0;  // nonzeros
  std::int64_t longest_filling = 0;  // nonzeros that a thread sees when it makes tiles, of A and of
                                     // B where it is another
  std::int64_t largest_task = 0;     // of tile_spgemm: tile products

  // Estimates.
  double pairs = 0;  // tile products that are not empty
  double tiles_of_c = 0;
  double nonzeros_of_c = 0;
  double merged_columns = 0;  // nonzeros of C, each times the share of a warp that merges its row
};

/// Microseconds of a product with its memory from a pool.
struct PathTimes {
  double rows_us = 0;
  double tiles_us = 0;
  double merge_us = 0;
};

/// Predicts the paths of kernels/spgemm/mixed/mixed_spgemm.cpp. Registered by the model folder: a
/// kernel that asks for it sees no model.
class PathModel {
 public:
  static constexpr const char* kKind = "model of SpGEMM paths";
  virtual ~PathModel() = default;

  /// `precision` is that of the tiles: "fp16", "tf32", "tf32x3". Throws an Error for a device
  /// that is not known, Unsupported for one whose file lacks a rate.
  virtual PathTimes predict(const SparseProductFigures& figures, const std::string& precision,
                            const std::string& device) const = 0;
};

}  // namespace tessera
