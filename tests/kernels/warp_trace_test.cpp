// The traces that kernels publish: they do the work that the description says, touch nothing else,
// and come to an end.

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <map>

#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"
#include "kernels/spmm_kernel.hpp"
#include "tests/counted_products.hpp"
#include "tests/support.hpp"
#include "tests/trace_support.hpp"

namespace tessera {
namespace {

struct Case {
  CsrMatrix a;
  std::int64_t n;
};

/// Windows short, long and empty; widths that are whole sectors, in 16 bits, too.
std::vector<Case> cases() {
  return {{random_sparse(1, 1, 1.0, 1), 16},     {random_sparse(203, 157, 0.07, 2), 32},
          {random_sparse(64, 900, 0.2, 3), 128}, {random_sparse(300, 300, 0.002, 4), 144},
          {random_sparse(40, 50, 0.0, 5), 32},   {random_sparse(9, 700, 0.5, 6), 272},
          {random_sparse(1000, 40, 0.01, 7), 16}};
}

/// A kernel, its parameters and its format's.
struct Variant {
  std::string kernel;
  Params::Given params = {};
  Params::Given format = {};
};

/// Every kernel with its defaults, and those whose parameters make another trace.
std::vector<Variant> variants() {
  std::vector<Variant> all;
  for (const std::string& name : Registry<SpmmKernel>::instance().names())
    if (name != "tall_spmm") all.push_back({name});  // narrowed, its B is another kernel's C
  for (const std::int64_t tiles : {0, 1})
    all.push_back({"tall_spmm", {{"storage", std::string("fp16")}, {"max_tiles", tiles}}});
  all.push_back(
      {"tall_spmm", {{"storage", std::string("bf16")}, {"storage_c", std::string("fp32")}}});
  all.push_back({"dense_spmm", {{"storage", std::string("fp16")}}});
  for (const char* rung : {"b", "t", "bt"}) all.push_back({"smat", {{"rung", std::string(rung)}}});
  all.push_back({"smat", {{"stages", std::int64_t{4}}, {"warp_cols", std::string("64")}}});
  for (const char* rung : {"b", "t", "bt", "cbt"})
    all.push_back({"smat", {{"rung", std::string(rung)}, {"warp_cols", std::string("8")}}});
  all.push_back({"tca_spmm", {{"blocks", std::string("nonzeros")}}});
  for (const char* blocks : {"tiles", "nonzeros"})
    all.push_back({"tca_spmm",
                   {{"precision", std::string("fp16")},
                    {"blocks", std::string(blocks)},
                    {"output", std::string("buffer")}}});
  const auto cute = [&](Params::Given params, Params::Given format = {}) {
    all.push_back({"cutespmm", std::move(params), std::move(format)});
  };
  cute({{"balance", std::string("sorted")}, {"panels", std::int64_t{4}}});
  cute({{"coarsen", std::int64_t{32}}, {"stages", std::int64_t{1}}},
       {{"tile_rows", std::int64_t{32}}});
  cute(
      {{"coarsen", std::int64_t{64}}, {"stages", std::int64_t{3}}, {"mma", std::string("m16n8k4")}},
      {{"tile_cols", std::int64_t{12}}});
  const auto acc = [&](std::initializer_list<std::pair<const char*, const char*>> choices) {
    Params::Given params;
    for (const auto& [name, value] : choices) params[name] = std::string(value);
    const bool bytes = params.contains("format");
    all.push_back({"acc_spmm", params,
                   bytes ? Params::Given{{"window_rows", std::int64_t{8}}} : Params::Given{}});
  };
  acc({{"pipeline", "registers"}});
  acc({{"pipeline", "least_bubble"}});
  acc({{"pipeline", "least_bubble"}, {"cache", "cg"}});
  acc({{"pipeline", "least_bubble"}, {"format", "me_tcf"}, {"balance", "dtc"}});
  acc({{"pipeline", "dtc"}, {"balance", "dtc"}, {"max_blocks", "3"}});
  acc({{"pipeline", "dtc"}, {"format", "me_tcf"}});
  acc({{"pipeline", "least_bubble"}, {"buffers", "block"}});
  acc({{"pipeline", "least_bubble"},
       {"buffers", "block"},
       {"balance", "dtc"},
       {"max_blocks", "3"}});
  acc({{"pipeline", "dtc"}, {"buffers", "block"}, {"balance", "adaptive"}});
  acc({{"pipeline", "dtc"}, {"buffers", "block"}, {"cache", "default"}, {"format", "me_tcf"}});
  acc({{"format", "me_tcf"}, {"columns", "32"}});
  acc({{"balance", "dtc"}, {"max_blocks", "2"}, {"combine", "atomic"}});
  all.push_back({"acc_spmm", {{"stages", std::int64_t{3}}, {"cache", std::string("ca")}}});
  all.push_back({"acc_spmm", {{"balance", std::string("none")}, {"columns", std::string("64")}}});
  for (const std::int64_t warps : {1, 2, 8}) all.push_back({"tcgnn", {{"warps", warps}}});
  for (const char* columns : {"0", "32", "64", "128"})
    all.push_back(
        {"tessera_spmm", {{"columns", std::string(columns)}, {"max_blocks", std::int64_t{3}}}});
  all.push_back(
      {"tessera_spmm", {{"combine", std::string("atomic")}, {"max_blocks", std::int64_t{1}}}});
  for (const std::int64_t piece : {1, 2, 20}) all.push_back({"rows_spmm", {{"piece", piece}}});
  const auto dtc = [&](Params::Given params) { all.push_back({"dtc_spmm", std::move(params)}); };
  dtc({{"mma", std::string("m16n8k8")}, {"split", true}, {"max_blocks", std::int64_t{2}}});
  dtc({{"balance", std::string("none")}, {"split", true}, {"double_buffer", false}});
  dtc({{"max_blocks", std::int64_t{1}}, {"combine", std::string("atomic")}});
  for (const char* fetch : {"float", "float2", "float4"})
    dtc({{"fetch", std::string(fetch)}, {"split", fetch == std::string("float2")}});
  const auto flash = [&](std::initializer_list<std::pair<const char*, const char*>> choices,
                         std::int64_t depth) {
    Params::Given params;
    for (const auto& [name, value] : choices) params[name] = std::string(value);
    all.push_back({"flash_spmm", std::move(params), {{"tile_cols", depth}}});
  };
  flash({{"max_vectors", "16"}}, 4);
  flash({{"pipeline", "registers"}}, 8);
  flash({{"pipeline", "registers"}, {"map", "off"}}, 8);
  flash({{"precision", "fp16"}, {"b", "as_is"}, {"stages", "3"}}, 16);
  flash({{"precision", "fp16"}, {"b", "converted"}}, 8);
  flash({{"precision", "fp16"}, {"b", "converted"}, {"max_vectors", "32"}}, 16);
  flash({{"precision", "fp16"}, {"b", "converted"}, {"pipeline", "registers"}}, 16);
  all.push_back({"magicube", {}, {{"vector_rows", std::int64_t{2}}}});
  all.push_back({"magicube", {{"precision", std::string("int8")}}, {{"stride", std::int64_t{32}}}});
  all.push_back({"dasp", {{"long_row", std::int64_t{20}}, {"part", std::int64_t{64}}}});
  for (const char* kernel : {"rode", "hp_spmm", "merge_spmm"})
    all.push_back({kernel, {{"combine", std::string("atomic")}, {"columns", std::int64_t{32}}}});
  all.push_back({"rode", {{"block", std::int64_t{32}}, {"unroll", std::int64_t{4}}}});
  all.push_back({"gespmm", {{"cwm", std::int64_t{8}}}});
  for (const char* reduce : {"sequential", "parallel", "caching"})
    all.push_back({"dgsparse", {{"reduce", std::string(reduce)}, {"balance", std::string("nnz")}}});
  all.push_back({"dgsparse", {{"reduce", std::string("parallel")}, {"columns", std::int64_t{8}}}});
  return all;
}

/// Calls check(work) for all cases of every kernel that publishes a trace.
template <class Check>
int for_each_trace(const std::vector<Case>& cases, Check check) {
  int traced = 0;
  for (const auto& [name, params, format] : variants()) {
    const auto kernel = Registry<SpmmKernel>::instance().make(name, params);
    for (const Case& c : cases) {
      const auto packed = Registry<Format>::instance().make(kernel->format(), format)->pack(c.a);
      WorkDescription work;
      try {
        work = kernel->work(*packed, c.n);
      } catch (const Unsupported&) {
        continue;
      }
      if (work.launches.empty() || std::ranges::any_of(work.launches, [](const Launch& launch) {
            return launch.trace == nullptr;
          }))
        continue;
      ++traced;
      CAPTURE(name);
      CAPTURE(c.a.rows);
      CAPTURE(c.n);
      check(work);
    }
  }
  return traced;
}

const AddressSpace::Array& array_of(const AddressSpace& memory, const LineTouch& touch) {
  const std::uint64_t address = std::uint64_t{touch.line} * kLineBytes;
  for (const AddressSpace::Array& array : memory.arrays())
    if (address >= array.begin &&
        address < array.begin + static_cast<std::uint64_t>(array.bytes + kLineBytes - 1) /
                                    kLineBytes * kLineBytes)
      return array;
  throw Error(fmt::format("line {} lies in no array", touch.line));
}

/// The work of a warp's operations, in the terms of ThreadBlockWork; bytes in sectors.
void add_to(ThreadBlockWork& work, const WarpTrace& trace, const AddressSpace& memory) {
  using Kind = WarpOp::Kind;
  for (const WarpOp& op : trace.ops) {
    if (op.kind == Kind::kMma || op.kind == Kind::kAsyncMma) work.mma += op.count;
    if (op.kind == Kind::kAtomic) work.atomics += op.count;
    if (op.kind == Kind::kBarrier) ++work.barriers;
    for (std::uint32_t i = op.first_line; i < op.last_line; ++i) {
      const LineTouch& touch = trace.lines[i];
      const std::string& array = array_of(memory, touch).name;
      const std::int64_t bytes = kSectorBytes * std::popcount(touch.sectors);
      const bool writes = op.kind == Kind::kStore || op.kind == Kind::kAtomic;
      if (array == "b" || (array == "workspace" && !writes)) work.b_bytes += bytes;
      if (array == "c" && op.kind == Kind::kStore) work.c_bytes += bytes;
      // Sums that wait for others lie in slots, B in another type in a workspace.
      CHECK((array == "slots" || array == "workspace" || (array == "c") == writes));
    }
  }
}

TEST_CASE("a trace does the work that its thread block is said to do") {
  const int traced = for_each_trace(cases(), [](const WorkDescription& work) {
    std::int64_t at = 0;
    for (const Launch& launch : work.launches) {
      CAPTURE(launch.name);
      for (std::int64_t block = 0; block < launch.thread_blocks; ++block, ++at) {
        CAPTURE(block);
        ThreadBlockWork traced_work;
        for (int warp = 0; warp < launch.threads_per_block / 32; ++warp)
          add_to(traced_work, whole_warp(*launch.trace, block, warp), work.memory);

        const ThreadBlockWork& said = work.thread_blocks[at];
        CHECK(traced_work.mma == said.mma);
        CHECK(traced_work.b_bytes == said.b_bytes);
        CHECK(traced_work.c_bytes == said.c_bytes);
        CHECK(traced_work.atomics == said.atomics);
        CHECK(traced_work.barriers == said.barriers);
      }
    }
    CHECK(at == static_cast<std::int64_t>(work.thread_blocks.size()));
  });
  REQUIRE(traced >= 5 * 7);
}

TEST_CASE("a trace gives the same operations again, piece by piece") {
  for_each_trace(cases(), [](const WorkDescription& work) {
    for (const Launch& launch : work.launches) {
      const std::int64_t block = launch.thread_blocks / 2;
      if (block >= launch.thread_blocks) continue;
      const WarpTrace once = whole_warp(*launch.trace, block, 0);
      WarpTrace pieces, piece;
      WarpCursor cursor;
      for (bool more = true; more;) {
        piece.clear();
        more = launch.trace->next(block, 0, cursor, piece);
        CHECK(!piece.ops.empty());
        pieces.ops.insert(pieces.ops.end(), piece.ops.begin(), piece.ops.end());
        pieces.lines.insert(pieces.lines.end(), piece.lines.begin(), piece.lines.end());
      }

      REQUIRE(pieces.ops.size() == once.ops.size());
      for (std::size_t i = 0; i < once.ops.size(); ++i) {
        CHECK(pieces.ops[i].kind == once.ops[i].kind);
        CHECK(pieces.ops[i].count == once.ops[i].count);
        CHECK(pieces.ops[i].scoreboard == once.ops[i].scoreboard);
      }
      REQUIRE(pieces.lines.size() == once.lines.size());
      for (std::size_t i = 0; i < once.lines.size(); ++i) {
        CHECK(pieces.lines[i].line == once.lines[i].line);
        CHECK(pieces.lines[i].sectors == once.lines[i].sectors);
      }
    }
  });
}

TEST_CASE("a trace stays in its arrays for any width of B, and waits for what it loads") {
  std::vector<Case> odd = cases();
  for (Case& c : odd) c.n = c.n + 3 + c.n % 5;
  for_each_trace(odd, [](const WorkDescription& work) {
    for (const Launch& launch : work.launches) {
      for (std::int64_t block = 0; block < launch.thread_blocks; block += 7) {
        for (int warp = 0; warp < launch.threads_per_block / 32; ++warp) {
          const WarpTrace trace = whole_warp(*launch.trace, block, warp);
          ThreadBlockWork traced_work;
          CHECK_NOTHROW(add_to(traced_work, trace, work.memory));
          std::map<int, bool> raised;
          for (const WarpOp& op : trace.ops) {
            if (op.kind == WarpOp::Kind::kLoad || op.kind == WarpOp::Kind::kAsyncCopy)
              raised[op.scoreboard] = true;
            if (op.kind == WarpOp::Kind::kWait) CHECK(raised[op.scoreboard]);
          }
        }
      }
    }
  });
}

/// Sectors of B that asynchronous copies read, and those of them that they take apart.
struct CopiedSectors {
  std::int64_t all = 0, split = 0;
};
CopiedSectors copied_from_b(const WorkDescription& work) {
  CopiedSectors copied;
  for (const Launch& launch : work.launches)
    for (std::int64_t block = 0; block < launch.thread_blocks; ++block)
      for (int warp = 0; warp < launch.threads_per_block / 32; ++warp) {
        const WarpTrace trace = whole_warp(*launch.trace, block, warp);
        for (const WarpOp& op : trace.ops) {
          if (op.kind != WarpOp::Kind::kAsyncCopy) continue;
          for (std::uint32_t i = op.first_line; i < op.last_line; ++i) {
            if (array_of(work.memory, trace.lines[i]).name != "b") continue;
            copied.all += std::popcount(trace.lines[i].sectors);
            copied.split += std::popcount(trace.lines[i].split);
          }
        }
      }
  return copied;
}

TEST_CASE("copies of rows of B take sectors apart only where rows begin in the middle of one") {
  const std::vector<Case> whole{{random_sparse(203, 157, 0.07, 12), 144}};
  const std::vector<Case> turned{{random_sparse(203, 157, 0.07, 12), 132}};
  std::int64_t copied = 0;

  for_each_trace(whole, [&](const WorkDescription& work) {
    const CopiedSectors b = copied_from_b(work);
    CHECK(b.split == 0);
    copied += b.all;
  });
  REQUIRE(copied > 0);
  int uncut = 0;
  for_each_trace(turned, [&](const WorkDescription& work) {
    const CopiedSectors b = copied_from_b(work);
    if (b.all > 0 && b.split == 0) {
      ++uncut;
      return;
    }
    // Every other row, and of it not the halves at its ends.
    CHECK(b.split >= 3 * b.all / 10);
    CHECK(b.split <= 6 * b.all / 10);
  });
  // acc_spmm with cache = cg: past the L1, but no copies. smat with eight columns a warp: its rows
  // of 32 bytes have no other halves than those at their ends.
  CHECK(uncut == 2);
}

TEST_CASE("a line outside the arrays would be seen") {
  AddressSpace memory;
  memory.add("b", 100);
  const std::uint64_t c = memory.add("c", 100);
  WarpTrace trace;
  trace.store();
  trace.touch(c, 32);
  ThreadBlockWork work;
  CHECK_NOTHROW(add_to(work, trace, memory));
  CHECK(work.c_bytes == 32);

  trace.store();
  trace.touch(c + 128, 4);
  CHECK_THROWS_AS(add_to(work, trace, memory), Error);
}

TEST_CASE("the trace of cutespmm issues more where operands are rounded, and most where split") {
  const CsrMatrix a = random_sparse(200, 300, 0.05, 40);
  const auto packed = Registry<Format>::instance().make("hrpb")->pack(a);
  const auto instructions = [&](const char* precision) {
    const auto kernel = Registry<SpmmKernel>::instance().make(
        "cutespmm", {{"precision", std::string(precision)}, {"balance", std::string("none")}});
    return predicted_counts(kernel->work(*packed, 128)).instructions;
  };
  const double raw = instructions("tf32_raw"), rounded = instructions("tf32");
  // 34 operands a lane and brick column of 2 x 4, two instructions for each that is rounded; split
  // in parts 7, and three MMAs.
  CHECK(rounded > 1.2 * raw);
  CHECK(rounded < 2.5 * raw);
  CHECK(instructions("tf32x3") > 1.5 * rounded);
  CHECK(instructions("tf32x3") < 4 * rounded);
}

}  // namespace
}  // namespace tessera
