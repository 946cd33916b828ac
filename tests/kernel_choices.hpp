// Kernels with their parameters, as points name them, for the device tests. A test without a GPU
// makes them all first, since a refused choice would fail all device tests.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/base/params.hpp"

namespace tessera {

/// A kernel with its parameters, as a point names it.
struct Choice {
  std::string kernel;
  Params::Given params = {};
  bool emulated = true;
  Params::Given format = {};  // parameters of the format it reads
  std::int64_t most_cols = std::numeric_limits<std::int64_t>::max();  // of B
};

inline Params::Given blocks_of(std::int64_t rows, std::int64_t cols) {
  return {{"block_rows", rows}, {"block_cols", cols}};
}

inline const Params::Given kUnsplit = {{"balance", std::string("none")}};

/// cutespmm without splitting row panels, with further parameters.
inline Choice cute(Params::Given more, Params::Given format = {}) {
  more.insert(kUnsplit.begin(), kUnsplit.end());
  return {"cutespmm", std::move(more), true, std::move(format)};
}

inline const Params::Given kAtomic = {{"combine", std::string("atomic")}};

/// dgsparse with parts so short that rows have several.
inline Choice dg(const char* reduce, const char* balance, std::int64_t columns = 0) {
  return {"dgsparse",
          {{"reduce", std::string(reduce)},
           {"balance", std::string(balance)},
           {"columns", columns},
           {"nonzeros", std::int64_t{20}}}};
}

/// acc_spmm with named choices, and windows cut into parts of at most `max_blocks` TC blocks.
inline Choice acc(const std::map<std::string, std::string>& names, std::int64_t max_blocks = 16) {
  Params::Given params(names.begin(), names.end());
  params["max_blocks"] = max_blocks;
  Params::Given format;
  if (names.contains("format")) format["window_rows"] = std::int64_t{8};  // it is me_tcf
  return {"acc_spmm", std::move(params), !names.contains("combine"), std::move(format)};
}

/// dtc_spmm with named choices and at most `max_blocks` TC blocks per team.
inline Choice dtc(const std::map<std::string, std::string>& names, bool split = false,
                  std::int64_t max_blocks = 16, bool double_buffer = true) {
  Params::Given params(names.begin(), names.end());
  params["split"] = split;
  params["max_blocks"] = max_blocks;
  params["double_buffer"] = double_buffer;
  return {"dtc_spmm", std::move(params), !names.contains("combine")};
}

/// cuSPARSE on another format than CSR or in another precision than FP32.
inline Choice vendor(const std::string& format, const std::string& precision,
                     Params::Given of_format = {}) {
  return {"cusparse", {{"format", format}, {"precision", precision}}, false, std::move(of_format)};
}

/// flash_spmm with named choices and the depth of its MMAs.
inline Choice flash(std::int64_t depth, const std::map<std::string, std::string>& names) {
  return {"flash_spmm",
          Params::Given(names.begin(), names.end()),
          !names.contains("combine"),
          {{"tile_cols", depth}}};
}

/// A kernel with B, and unless `more` says otherwise C, in 16 bits.
inline Choice stored(const char* kernel, const char* storage, Params::Given more = {}) {
  more["storage"] = std::string(storage);
  return {kernel, std::move(more)};
}

inline Choice cube(const char* precision, std::int64_t height, Params::Given more = {}) {
  const bool int8 = std::string_view(precision) == "int8";
  more["precision"] = std::string(precision);
  return {"magicube",
          std::move(more),
          true,
          {{"vector_rows", height}, {"stride", std::int64_t{int8 ? 32 : 16}}}};
}

/// Every kernel, and every value of its parameters at least once.
inline const std::vector<Choice>& kernel_choices() {
  static const std::vector<Choice> choices{
      {"csr_spmm"},
      {"rode"},
      {"rode", kAtomic, false},
      {"rode", {{"segment", std::int64_t{4}}, {"block", std::int64_t{8}}}},
      {"rode",
       {{"segment", std::int64_t{4}},
        {"block", std::int64_t{8}},
        {"combine", std::string("atomic")}},
       false},
      {"rode", {{"columns", std::int64_t{32}}, {"unroll", std::int64_t{8}}}},
      {"rode", {{"columns", std::int64_t{64}}, {"warps", std::int64_t{1}}}},
      {"rode",
       {{"columns", std::int64_t{128}}, {"unroll", std::int64_t{8}}, {"warps", std::int64_t{2}}}},
      {"sputnik"},
      {"sputnik", {{"swizzle", std::string("off")}, {"columns", std::int64_t{32}}}},
      {"sputnik", {{"columns", std::int64_t{32}}, {"unroll", std::int64_t{4}}}},
      {"sputnik", {{"columns", std::int64_t{64}}, {"unroll", std::int64_t{4}}}},
      {"sputnik", {{"columns", std::int64_t{128}}, {"unroll", std::int64_t{16}}}},
      {"sputnik", {{"columns", std::int64_t{128}}, {"unroll", std::int64_t{8}}}},
      {"gespmm"},
      {"gespmm", {{"cwm", std::int64_t{1}}, {"unroll", std::int64_t{4}}}},
      {"gespmm", {{"cwm", std::int64_t{2}}, {"warps", std::int64_t{4}}}},
      {"gespmm", {{"cwm", std::int64_t{4}}}},
      {"gespmm", {{"cwm", std::int64_t{8}}}},
      {"gespmm", {{"cwm", std::int64_t{8}}, {"unroll", std::int64_t{4}}}},
      {"row_split"},
      {"row_split", {{"columns", std::int64_t{32}}, {"unroll", std::int64_t{16}}}},
      {"row_split", {{"columns", std::int64_t{64}}, {"unroll", std::int64_t{4}}}},
      {"row_split", {{"columns", std::int64_t{128}}, {"unroll", std::int64_t{8}}}},
      {"row_split", {{"columns", std::int64_t{128}}, {"unroll", std::int64_t{16}}}},
      {"hp_spmm"},
      {"hp_spmm", kAtomic, false},
      {"hp_spmm", {{"nonzeros", std::int64_t{1}}}},
      {"hp_spmm", {{"nonzeros", std::int64_t{7}}, {"columns", std::int64_t{128}}}},
      {"hp_spmm", {{"columns", std::int64_t{64}}, {"unroll", std::int64_t{4}}}},
      {"hp_spmm", {{"columns", std::int64_t{128}}, {"unroll", std::int64_t{4}}}},
      {"merge_spmm"},
      {"merge_spmm", kAtomic, false},
      {"merge_spmm", {{"items", std::int64_t{1}}}},
      {"merge_spmm", {{"items", std::int64_t{9}}, {"columns", std::int64_t{128}}}},
      {"merge_spmm", {{"columns", std::int64_t{64}}, {"unroll", std::int64_t{4}}}},
      {"merge_spmm", {{"columns", std::int64_t{32}}, {"unroll", std::int64_t{4}}}},
      dg("sequential", "row"),
      dg("sequential", "nnz"),
      dg("sequential", "nnz", 128),
      dg("sequential", "row", 64),
      dg("caching", "row"),
      dg("caching", "nnz"),
      dg("caching", "nnz", 128),
      dg("parallel", "row"),
      dg("parallel", "nnz"),
      dg("parallel", "row", 4),
      dg("parallel", "nnz", 8),
      dg("parallel", "row", 16),
      dg("parallel", "nnz", 32),
      {"acc_spmm"},
      {"acc_spmm", {{"precision", std::string("tf32_raw")}}},
      {"acc_spmm", {{"precision", std::string("tf32x3")}}},
      {"acc_spmm", {{"precision", std::string("tf32x3_promoted")}}},
      {"acc_spmm", {{"promote", std::int64_t{3}}}},
      {"acc_spmm", {{"pipeline", std::string("registers")}}},
      {"acc_spmm", {{"max_blocks", std::int64_t{2}}}},
      {"acc_spmm",
       {{"max_blocks", std::int64_t{1}},
        {"pipeline", std::string("registers")},
        {"precision", std::string("tf32x3_promoted")}}},
      {"acc_spmm", {{"max_blocks", std::int64_t{1}}, {"combine", std::string("atomic")}}, false},
      {"acc_spmm",
       {{"stages", std::int64_t{3}}, {"columns", std::int64_t{32}}, {"cache", std::string("ca")}}},
      {"acc_spmm",
       {{"stages", std::int64_t{4}},
        {"columns", std::int64_t{128}},
        {"balance", std::string("ibd")}}},
      {"acc_spmm", {{"columns", std::int64_t{64}}, {"balance", std::string("none")}}},
      acc({{"pipeline", "registers"}, {"store", "wt"}}, 2),
      acc({{"pipeline", "registers"}, {"combine", "atomic"}}, 1),
      acc({{"pipeline", "least_bubble"}}),
      acc({{"pipeline", "least_bubble"}, {"cache", "cg"}, {"store", "wt"}}),
      acc({{"pipeline", "least_bubble"}, {"format", "me_tcf"}, {"store", "cs"}}, 2),
      acc({{"pipeline", "least_bubble"}, {"balance", "dtc"}}, 3),
      acc({{"pipeline", "least_bubble"}, {"format", "me_tcf"}, {"balance", "dtc"}}, 1),
      acc({{"pipeline", "dtc"}, {"store", "cg"}}),
      acc({{"pipeline", "dtc"}, {"cache", "cg"}, {"balance", "none"}}),
      acc({{"pipeline", "dtc"}, {"balance", "dtc"}}, 32),
      acc({{"pipeline", "dtc"}, {"format", "me_tcf"}, {"balance", "ibd"}}),
      acc({{"pipeline", "dtc"}, {"format", "me_tcf"}, {"balance", "dtc"}}, 2),
      acc({{"pipeline", "dtc"}, {"balance", "dtc"}, {"combine", "atomic"}}, 2),
      acc({{"pipeline", "least_bubble"}, {"buffers", "block"}, {"store", "wt"}}, 2),
      acc({{"pipeline", "least_bubble"}, {"buffers", "block"}, {"balance", "dtc"}}, 3),
      acc({{"pipeline", "least_bubble"}, {"buffers", "block"}, {"balance", "adaptive"}}, 5),
      acc({{"pipeline", "least_bubble"}, {"balance", "adaptive"}}, 3),
      acc({{"pipeline", "least_bubble"},
           {"buffers", "block"},
           {"balance", "dtc"},
           {"combine", "atomic"}},
          1),
      acc({{"pipeline", "least_bubble"}, {"buffers", "block"}, {"cache", "default"}}, 2),
      acc({{"pipeline", "least_bubble"},
           {"buffers", "block"},
           {"cache", "default"},
           {"balance", "dtc"}},
          4),
      acc({{"pipeline", "least_bubble"}, {"buffers", "block"}, {"format", "me_tcf"}}, 3),
      acc({{"pipeline", "least_bubble"},
           {"buffers", "block"},
           {"format", "me_tcf"},
           {"balance", "dtc"},
           {"store", "cs"}},
          2),
      acc({{"pipeline", "dtc"}, {"buffers", "block"}, {"store", "wt"}, {"balance", "none"}}),
      acc({{"pipeline", "dtc"}, {"buffers", "block"}, {"balance", "dtc"}}, 2),
      acc({{"pipeline", "dtc"}, {"buffers", "block"}, {"cache", "default"}}, 2),
      acc({{"pipeline", "dtc"},
           {"buffers", "block"},
           {"cache", "default"},
           {"format", "me_tcf"},
           {"balance", "none"}}),
      acc({{"format", "me_tcf"}}),
      acc({{"format", "me_tcf"}, {"columns", "32"}}, 1),
      acc({{"balance", "dtc"}}),
      acc({{"balance", "dtc"}, {"columns", "64"}}, 2),
      acc({{"balance", "dtc"}, {"columns", "32"}, {"combine", "atomic"}}, 1),
      acc({{"store", "wt"}}),
      acc({{"store", "cs"}, {"columns", "32"}}, 2),
      acc({{"store", "cg"}, {"columns", "64"}, {"combine", "atomic"}}, 2),
      {"windows_spmm"},
      {"warps_spmm"},
      {"shares_spmm", {{"thread_blocks", std::int64_t{2}}}},
      {"shares_spmm", {}, false},
      {"smat"},
      {"smat", {{"rung", std::string("b")}}},
      {"smat", {{"rung", std::string("t")}}},
      {"smat", {{"rung", std::string("bt")}}},
      {"smat", {{"precision", std::string("bf16")}}},
      {"smat", {{"padding", std::string("read")}}},
      {"smat", {{"warp_cols", std::string("32")}}},
      {"smat", {{"warp_cols", std::string("64")}, {"stages", std::int64_t{3}}}},
      {"smat", {{"warp_cols", std::string("128")}, {"stages", std::int64_t{4}}}},
      {"smat", {}, true, blocks_of(8, 8)},
      {"smat", {}, true, blocks_of(16, 8)},
      {"smat", {}, true, blocks_of(32, 32)},
      {"smat", {{"rung", std::string("bt")}}, true, blocks_of(8, 16)},
      {"smat", {{"rung", std::string("t")}}, true, blocks_of(5, 40)},
      {"smat", {{"rung", std::string("b")}}, true, blocks_of(20, 3)},
      {"smat", {{"warp_cols", std::string("8")}, {"stages", std::int64_t{2}}}},
      {"smat", {{"warp_cols", std::string("8")}, {"precision", std::string("bf16")}}},
      {"smat", {{"warp_cols", std::string("8")}, {"rung", std::string("b")}}},
      {"smat", {{"warp_cols", std::string("8")}, {"rung", std::string("t")}}},
      {"smat", {{"warp_cols", std::string("8")}, {"rung", std::string("bt")}}},
      {"smat", {{"warp_cols", std::string("8")}}, true, blocks_of(40, 24)},
      {"tca_spmm"},
      {"tca_spmm", {{"precision", std::string("fp16")}}},
      {"tca_spmm", {{"precision", std::string("tf32_raw")}}},
      {"tca_spmm", {{"tile_cols", std::int64_t{128}}}},
      {"tca_spmm", {{"method", std::string("multiblock")}}},
      {"tca_spmm",
       {{"method", std::string("multirow")},
        {"warps_per_row", std::int64_t{1}},
        {"tile_cols", std::int64_t{128}}}},
      {"tca_spmm",
       {{"method", std::string("multirow")},
        {"warps_per_row", std::int64_t{2}},
        {"precision", std::string("fp16")}}},
      {"tca_spmm", {{"warps_per_row", std::int64_t{4}}}},
      {"tca_spmm", {{"warps_per_row", std::int64_t{8}}}},
      {"tca_spmm", {{"blocks", std::string("nonzeros")}}},
      {"tca_spmm", {{"blocks", std::string("nonzeros")}, {"tile_cols", std::int64_t{128}}}},
      {"tca_spmm",
       {{"precision", std::string("fp16")},
        {"blocks", std::string("nonzeros")},
        {"output", std::string("buffer")}}},
      {"tca_spmm",
       {{"precision", std::string("fp16")},
        {"output", std::string("buffer")},
        {"method", std::string("multirow")},
        {"warps_per_row", std::int64_t{2}}}},
      {"cutespmm", kUnsplit},
      {"cutespmm", {}, false},
      {"cutespmm", {{"balance", std::string("average")}}, false},
      {"cutespmm", {{"balance", std::string("sorted")}}},

      cute({{"precision", std::string("tf32_raw")}}),
      cute({{"coarsen", std::int64_t{0}}}),
      cute({{"mma", std::string("m16n8k4")}}),
      cute({{"coarsen", std::int64_t{64}}, {"stages", std::int64_t{3}}}),
      cute({{"coarsen", std::int64_t{32}},
            {"mma", std::string("m16n8k4")},
            {"stages", std::int64_t{1}}}),
      cute({{"panels", std::int64_t{4}}, {"stages", std::int64_t{4}}},
           {{"tile_cols", std::int64_t{8}}}),
      cute({{"panels", std::int64_t{2}}, {"coarsen", std::int64_t{32}}},
           {{"tile_cols", std::int64_t{12}}}),
      cute({{"stages", std::int64_t{1}}}, {{"tile_cols", std::int64_t{4}}}),
      cute({{"coarsen", std::int64_t{64}}}, {{"tile_rows", std::int64_t{32}}}),
      cute({{"mma", std::string("m16n8k4")}},
           {{"tile_rows", std::int64_t{32}}, {"tile_cols", std::int64_t{32}}}),
      cute({{"precision", std::string("tf32x3")}}),
      cute({{"precision", std::string("tf32x3")}, {"coarsen", std::int64_t{32}}}),
      {"cutespmm", {{"precision", std::string("tf32x3")}}, false},
      {"tessera_spmm"},
      {"tessera_spmm", {{"precision", std::string("tf32x3")}}},
      {"tessera_spmm", {{"columns", std::string("32")}, {"max_blocks", std::int64_t{1}}}},
      {"tessera_spmm", {{"columns", std::string("64")}, {"max_blocks", std::int64_t{3}}}},
      {"tessera_spmm", {{"columns", std::string("128")}, {"max_blocks", std::int64_t{2}}}},
      {"tessera_spmm", {{"columns", std::string("32")}, {"joined", std::int64_t{30}}}},
      {"tessera_spmm",
       {{"columns", std::string("32")},
        {"joined", std::int64_t{20}},
        {"prefetch", std::string("on")}}},
      {"tessera_spmm",
       {{"columns", std::string("64")},
        {"max_blocks", std::int64_t{1}},
        {"prefetch", std::string("on")}}},
      {"tessera_spmm",
       {{"joined", std::int64_t{7}},
        {"max_blocks", std::int64_t{5}},
        {"chunks", std::string("in_turn")}}},
      {"tessera_spmm",
       {{"combine", std::string("atomic")}, {"max_blocks", std::int64_t{2}}},
       false},
      stored("tessera_spmm", "fp16"),
      stored("tessera_spmm", "fp16", {{"storage_c", std::string("fp32")}}),
      stored("tessera_spmm", "fp16",
             {{"columns", std::string("64")}, {"max_blocks", std::int64_t{1}}}),
      stored("tessera_spmm", "bf16", {{"max_blocks", std::int64_t{3}}}),
      stored("tessera_spmm", "fp16", {{"joined", std::int64_t{30}}}),
      stored("tessera_spmm", "fp16",
             {{"max_blocks", std::int64_t{2}},
              {"joined", std::int64_t{20}},
              {"prefetch", std::string("on")}}),
      stored("tessera_spmm", "bf16",
             {{"joined", std::int64_t{12}},
              {"columns", std::string("64")},
              {"chunks", std::string("neighbours")}}),
      stored("tessera_spmm", "bf16",
             {{"storage_c", std::string("fp32")}, {"max_blocks", std::int64_t{2}}}),
      {"dense_spmm"},
      stored("dense_spmm", "fp16"),
      stored("dense_spmm", "fp16", {{"storage_c", std::string("fp32")}}),
      stored("dense_spmm", "bf16"),
      {"tall_spmm"},
      {"tall_spmm", {{"max_tiles", std::int64_t{1}}}},
      {"tall_spmm", {{"precision", std::string("fp32")}}},
      stored("tall_spmm", "fp16"),
      stored("tall_spmm", "fp16", {{"max_tiles", std::int64_t{1}}}),
      stored("tall_spmm", "fp16", {{"storage_c", std::string("fp32")}}),
      stored("tall_spmm", "bf16"),
      stored("tall_spmm", "bf16",
             {{"storage_c", std::string("fp32")}, {"max_tiles", std::int64_t{2}}}),
      {"tessera_spmm", {{"precision", std::string("fp16_scaled")}}},
      {"tessera_spmm",
       {{"precision", std::string("fp16_scaled")},
        {"columns", std::string("64")},
        {"max_blocks", std::int64_t{2}}}},
      {"rows_spmm", {{"columns", std::int64_t{16}}, {"nonzeros", std::string("direct")}}},
      {"rows_spmm"},
      {"rows_spmm", {{"nonzeros", std::string("direct")}}},
      {"rows_spmm", {{"nonzeros", std::string("direct")}, {"turns", std::int64_t{2}}}},
      {"rows_spmm", {{"nonzeros", std::string("direct")}, {"turns", std::int64_t{4}}}},
      stored("rows_spmm", "fp16", {{"nonzeros", std::string("direct")}}),
      stored("rows_spmm", "bf16",
             {{"nonzeros", std::string("direct")}, {"storage_c", std::string("fp32")}}),
      {"rows_spmm", {{"precision", std::string("fp16_scaled")}}},
      {"rows_spmm",
       {{"precision", std::string("fp16_scaled")}, {"nonzeros", std::string("direct")}}},
      {"cusparse", {{"storage", std::string("fp16")}}, false},
      {"cusparse", {{"storage", std::string("bf16")}}, false},
      stored("rows_spmm", "fp16"),
      stored("rows_spmm", "fp16", {{"piece", std::int64_t{3}}, {"storage_c", std::string("fp32")}}),
      stored("rows_spmm", "bf16", {{"piece", std::int64_t{1}}}),
      {"rows_spmm", {{"piece", std::int64_t{1}}}},
      {"rows_spmm", {{"piece", std::int64_t{3}}}},
      {"rows_spmm", {{"piece", std::int64_t{50}}}},
      {"rows_spmm", {{"columns", std::int64_t{256}}}},
      {"rows_spmm", {{"columns", std::int64_t{512}}, {"piece", std::int64_t{3}}}},
      {"rows_spmm", {{"lanes", std::int64_t{2}}}},
      {"rows_spmm", {{"lanes", std::int64_t{8}}, {"offsets", std::string("never")}}},
      {"rows_spmm", {{"lanes", std::int64_t{8}}, {"offsets", std::string("always")}}},
      {"rows_spmm",
       {{"lanes", std::int64_t{16}},
        {"piece", std::int64_t{5}},
        {"offsets", std::string("always")}}},
      {"rows_spmm", {{"lanes", std::int64_t{32}}}},
      stored("rows_spmm", "fp16",
             {{"columns", std::int64_t{512}},
              {"lanes", std::int64_t{16}},
              {"offsets", std::string("always")}}),
      stored("rows_spmm", "bf16",
             {{"columns", std::int64_t{512}},
              {"piece", std::int64_t{5}},
              {"storage_c", std::string("fp32")}}),
      {"dtc_spmm"},
      dtc({{"mma", "m16n8k8"}}, false, 2),
      dtc({{"mma", "m16n8k8"}}, true, 1),
      dtc({{"balance", "none"}}, true),
      dtc({{"balance", "none"}}, false, 16, false),
      dtc({{"combine", "atomic"}}, false, 2),
      dtc({{"combine", "atomic"}, {"fetch", "float2"}}, true, 1),
      dtc({{"fetch", "float"}}, false, 3),
      dtc({{"fetch", "float"}}, true, 16, false),
      dtc({{"fetch", "float2"}, {"mma", "m16n8k8"}}),
      dtc({{"fetch", "float2"}}, true),
      dtc({{"fetch", "float4"}}, false, 2, false),
      dtc({{"fetch", "float4"}, {"mma", "m16n8k8"}}, true, 3),
      {"tcgnn"},
      {"tcgnn", {{"warps", std::int64_t{1}}}},
      {"tcgnn", {{"warps", std::int64_t{2}}}},
      {"tcgnn", {{"warps", std::int64_t{8}}}},
      {"cublas", {}, false},
      {"cublas", {{"precision", std::string("tf32")}}, false},
      {"cublas", {{"pad", std::string("none")}}, false},
      {"cublas", {{"precision", std::string("tf32")}, {"pad", std::string("rows")}}, false},
      {"flash_spmm"},
      flash(4, {}),
      flash(4, {{"max_vectors", "8"}, {"columns", "32"}, {"stages", "3"}}),
      flash(8, {{"balance", "off"}, {"columns", "64"}, {"stages", "4"}}),
      flash(8, {{"max_vectors", "16"}, {"combine", "atomic"}}),
      flash(8, {{"pipeline", "registers"}, {"max_vectors", "24"}}),
      flash(8, {{"pipeline", "registers"}, {"map", "off"}}),
      flash(
          4,
          {{"pipeline", "registers"}, {"map", "off"}, {"combine", "atomic"}, {"max_vectors", "8"}}),
      flash(8, {{"precision", "fp16"}}),
      flash(8, {{"precision", "fp16"}, {"b", "converted"}, {"max_vectors", "16"}}),
      flash(16, {{"precision", "fp16"}, {"b", "converted"}}),
      flash(16, {{"precision", "fp16"}, {"b", "as_is"}, {"max_vectors", "32"}, {"columns", "32"}}),
      flash(16, {{"precision", "fp16"}, {"b", "converted"}, {"pipeline", "registers"}}),
      flash(16, {{"precision", "fp16"}, {"b", "as_is"}, {"pipeline", "registers"}, {"map", "off"}}),
      flash(8, {{"precision", "fp16"}, {"b", "as_is"}, {"pipeline", "registers"}}),
      flash(8,
            {{"precision", "fp16"}, {"b", "converted"}, {"pipeline", "registers"}, {"map", "off"}}),
      cube("fp16", 8),
      cube("fp16", 4, {{"columns", std::int64_t{32}}, {"stages", std::int64_t{3}}}),
      cube("fp16", 2),
      cube("int8", 8),
      cube("int8", 4, {{"columns", std::int64_t{64}}}),
      cube("int8", 2, {{"columns", std::int64_t{32}}, {"stages", std::int64_t{4}}}),
      {"hyb_spmm"},
      {"hyb_spmm", {{"partitions", std::int64_t{3}}, {"widest", std::int64_t{1}}}},
      {"hyb_spmm", {{"widest", std::int64_t{0}}, {"coarsen", std::string("1")}}},
      {"hyb_spmm",
       {{"partitions", std::int64_t{2}},
        {"widest", std::int64_t{4}},
        {"coarsen", std::string("4")}}},
      {"dasp", {}, true, {}, 8},
      {"dasp", {{"long_row", std::int64_t{12}}, {"part", std::int64_t{64}}}, true, {}, 8},
      {"cusparse", {}, false},
      vendor("csr", "fp16"),
      vendor("coo", "fp32"),
      vendor("coo", "fp16"),
      vendor("bcsr", "fp32", blocks_of(16, 16)),
      vendor("bcsr", "fp16", blocks_of(16, 16)),
      vendor("bcsr", "fp32", blocks_of(4, 4)),
      vendor("bcsr", "fp16", blocks_of(4, 4)),
      vendor("blocked_ell", "fp32"),
      vendor("blocked_ell", "fp16"),
      vendor("blocked_ell", "fp16", {{"block", std::int64_t{4}}})};
  return choices;
}

inline std::string text_of(const Params::Given& params) {
  std::string text;
  for (const auto& [name, value] : params) text += name + " = " + to_text(value) + " ";
  return text;
}

}  // namespace tessera
