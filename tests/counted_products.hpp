// The products whose instructions and requests an H200 has counted, and the counts of their traces:
// for the device test that counts them anew, and for the test that holds the traces against the
// committed counts.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>

#include "formats/base/check.hpp"
#include "formats/base/random.hpp"
#include "formats/base/registry.hpp"
#include "formats/io/source.hpp"
#include "kernels/spmm_kernel.hpp"
#include "kernels/warp_trace.hpp"
#include "kernels/work.hpp"
#include "model/simulator/counters.hpp"
#include "tests/kernel_choices.hpp"
#include "tests/support.hpp"
#include "tests/trace_counts.hpp"

namespace tessera {

/// "even": rows of about one length; "skewed": a few long rows.
inline CsrMatrix counted_matrix(const std::string& name) {
  if (name == "even") return random_sparse(6000, 6000, 0.005, 21);
  require(name == "skewed", "no matrix is called {} here", name);
  return load_matrix("rmat(scale=13, edge_factor=16)").matrix;
}

/// The parameters of a kernel and its format, as the table of counts names them.
inline std::string text_of(const Choice& choice) {
  std::string text = text_of(choice.params) + text_of(choice.format);
  if (text.ends_with(' ')) text.pop_back();
  return text;
}

/// True where $TESSERA_TRACE_KERNELS, a list with commas, names the kernel or is not set.
inline bool is_selected(const std::string& kernel) {
  const char* selection = std::getenv("TESSERA_TRACE_KERNELS");
  return selection == nullptr ||
         (std::string(",") + selection + ",").find("," + kernel + ",") != std::string::npos;
}
inline bool selects_kernels() { return std::getenv("TESSERA_TRACE_KERNELS") != nullptr; }

inline bool has_traces(const WorkDescription& work) {
  return !work.launches.empty() &&
         std::ranges::all_of(work.launches, [](const Launch& one) { return one.trace != nullptr; });
}

/// A packed matrix, and the work of a kernel with traces; none for a kernel without.
struct TracedProduct {
  std::unique_ptr<PackedMatrix> packed;
  std::optional<WorkDescription> work;

  TracedProduct(const Choice& choice, const CsrMatrix& a, std::int64_t n) {
    const auto kernel = Registry<SpmmKernel>::instance().make(choice.kernel, choice.params);
    packed = Registry<Format>::instance().make(kernel->format(), choice.format)->pack(a);
    try {
      WorkDescription described = kernel->work(*packed, n);
      if (has_traces(described)) work = std::move(described);
    } catch (const Unsupported&) {
      // A vendor's library publishes no work description.
    }
  }
};

/// The counts that the warps of all launches have, whatever their timing: all but the reads of the
/// L2, which only predicted_counts() knows.
inline TraceCounts traced_counts(const WorkDescription& work) {
  TraceCounts counts{};
  WarpTrace piece;
  for (const Launch& launch : work.launches)
    for (std::int64_t block = 0; block < launch.thread_blocks; ++block)
      for (int warp = 0; warp < launch.threads_per_block / 32; ++warp) {
        WarpCursor cursor;
        for (bool more = true; more;) {
          piece.clear();
          more = launch.trace->next(block, warp, cursor, piece);
          for (const WarpOp& op : piece.ops) {
            counts.instructions += instructions_of(op);
            if (op.kind == WarpOp::Kind::kMma || op.kind == WarpOp::Kind::kAsyncMma)
              counts.mma += op.count;
            if (op.kind != WarpOp::Kind::kLoad && op.kind != WarpOp::Kind::kAsyncCopy) continue;
            for (std::uint32_t i = op.first_line; i < op.last_line; ++i)
              counts.l1_sectors += count_sectors(piece.lines[i].sectors);
          }
        }
      }
  return counts;
}

inline TraceCounts predicted_counts(const WorkDescription& work) {
  const auto counters = simulator::counters(simulator::simulate(work, find_device("h200")));
  return {counters.at("sm__inst_executed.sum"), counters.at("sm__inst_executed_pipe_tensor.sum"),
          counters.at("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"),
          counters.at("lts__t_sectors_srcunit_tex_op_read.sum")};
}

}  // namespace tessera
