#include "experiments/tables/rows.hpp"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <set>
#include <span>

#include "experiments/run/analysis.hpp"
#include "experiments/tables/row_steps.hpp"
#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"
#include "formats/base/suggest.hpp"
#include "formats/format.hpp"
#include "formats/statistics/named_statistics.hpp"
#include "formats/values/value_family.hpp"
#include "kernels/spgemm_kernel.hpp"
#include "kernels/spmm_kernel.hpp"
#include "model/model.hpp"
#include "reorder/reordering.hpp"

namespace tessera {
namespace {

/// Where in a record a column comes from.
struct Source {
  const char* column;
  const char* pointer;
  const char* meaning;
};

constexpr Source kSources[] = {
    {"rows", "/matrix/rows", "rows of A"},
    {"cols", "/matrix/cols", "columns of A"},
    {"nnz", "/matrix/nnz", "nonzeros of A"},
    {"synthetic", "/matrix/synthetic", "A was generated"},
    {"n", "/params/n", "columns of a dense B"},
    {"right", "/params/right", "a sparse B: self, transpose or another matrix"},
    {"seed", "/params/seed", "of B and of drawn values of A"},
    {"backend", "/params/backend", "emulate, model, simulate, gpu, pack, pack_gpu, reorder"},
    {"reorder", "/params/reorder/name", "reordering"},
    {"format", "/params/format/name", "format of A"},
    {"kernel", "/params/kernel/name", "kernel"},
    {"advised", "/advice/kernel", "the kernel that \"auto\" came down to"},
    {"model", "/params/model/name", "model of a prediction"},
    {"l2", "/params/measure/l2", "warm or flush"},
    {"origin", "/origin", "emulated, modelled, simulated or measured"},
    {"status", "/status", "ok, skipped, failed, timeout, oom, wrong"},
    {"reason", "/reason", "of a status other than ok"},
    {"p5_us", "/time/p5_us", "fifth percentile of the measured time, us"},
    {"p95_us", "/time/p95_us", "95th percentile of the measured time, us"},
    {"samples", "/time/n", "samples of the measured time"},
    {"threads", "/time/threads", "CPU threads that packing or reordering could use"},
    {"nnz_per_s", "/nnz_per_s", "nonzeros packed or reordered a second"},
    {"round_trip_exact", "/check/round_trip_exact", "the packed A unpacks to A"},
    {"host_bytes", "/check/host_bytes",
     "packed on the GPU, every array has the bytes of the host's"},
    {"gflops", "/gflops", "2 nnz N / time, or 2 products / time, GFLOP/s"},
    {"pool_us", "/time_pool/median_us", "time_us of a sparse product with memory from a pool, us"},
    {"pool_gflops", "/pool_gflops", "2 products / pool_us, GFLOP/s"},
    {"again_us", "/time_again/median_us",
     "a sparse product repeated for other values, where C's structure is kept, us"},
    {"products", "/products", "terms of all sums of a sparse C"},
    {"nnz_c", "/nnz_c", "elements of a sparse C"},
    {"compression", "/compression", "products / nnz_c"},
    {"peak_bytes", "/memory/peak_bytes", "most device memory a sparse product held, C included"},
    {"missing", "/check/missing", "cells of the true pattern that a sparse C does not have"},
    {"extra", "/check/extra", "cells of a sparse C that are not in the true pattern"},
    {"winner", "/winner", "algorithm a library was used with, or kernel another one chose"},
    {"predicted_rows_us", "/predicted_us/row_spgemm", "what mixed_spgemm expected of it, us"},
    {"predicted_merge_us", "/predicted_us/merge_spgemm", "what mixed_spgemm expected of it, us"},
    {"predicted_tiles_us", "/predicted_us/tile_spgemm", "what mixed_spgemm expected of it, us"},
    {"bound_by", "/prediction/bound_by", "part that decides a prediction"},
    {"smape_pct", "/check/smape_pct", "SMAPE against fp64 as tSparse defines it, 0 to 100 %"},
    {"smape_common_pct", "/check/smape_common_pct",
     "SMAPE against fp64 as commonly defined, 0 to 200 %"},
    {"smape_fp32_pct", "/check/smape_fp32_pct",
     "SMAPE against FP32 as tSparse defines it, 0 to 100 %"},
    {"relative_frobenius", "/check/relative_frobenius", "error in the Frobenius norm, relative"},
    {"max_rel", "/check/max_rel", "largest relative error"},
    {"backward_error", "/check/backward_error", "largest |error| / (|A||B|)"},
    {"backward_error_median", "/check/backward_error_p50", "median |error| / (|A||B|)"},
    {"backward_error_p99", "/check/backward_error_p99", "99th percentile of |error| / (|A||B|)"},
    {"backward_error_mean", "/check/backward_error_mean", "mean |error| / (|A||B|)"},
    {"normwise_backward_error", "/check/normwise_backward_error",
     "||error||_F / (||A||_F ||B||_F)"},
    {"bias", "/check/signed_bias", "mean error away from zero / (|A||B|); negative: toward zero"},
    {"condition_geomean", "/check/condition_geomean", "geometric mean of |A||B| / |AB|"},
    {"condition_max", "/check/condition_max", "largest |A||B| / |AB|"},
    {"overflows", "/check/overflows", "elements that are infinite where the truth is not"},
    {"underflows", "/check/underflows", "elements that are 0 or subnormal where the truth is not"},
    {"max_ulp", "/check/max_ulp", "largest error in units in the last place"},
    {"bound_ratio", "/check/bound_ratio", "largest |error| / bound"},
    {"compared", "/check/compared", "elements compared with fp64"},
    {"bits_compared", "/bits/compared", "elements compared with the emulation"},
    {"bits_different", "/bits/different", "of them, with different bits"},
    {"load_s", "/prep/load_s", "loading A, s"},
    {"reorder_s", "/prep/reorder_s", "finding the order of A, s"},
    {"reorder_threads", "/prep/reorder_threads", "CPU threads that finding the order could use"},
    {"reorder_peak_bytes", "/prep/reorder_peak_bytes",
     "memory that finding the order took beyond A, bytes"},
    {"reorder_from_cache", "/prep/reorder_from_cache", "the order is one kept from before"},
    {"reorder_cut_short", "/prep/reorder_cut_short", "the order is the best so far at a limit"},
    {"reorder_chosen", "/prep/reorder_chosen", "of several orders tried, the one taken"},
    {"apply_s", "/prep/apply_s", "putting A into its order, s"},
    {"pack_s", "/prep/pack_s", "packing A, s"},
    {"pack_gpu_s", "/prep/pack_gpu_s", "packing A on the GPU, s"},
    {"unpermute_us", "/unpermute/median_us", "restoring the rows of C, us"},
    {"unpermuted_on", "/unpermute/on", "what restored the rows of C: cpu or gpu"},
    {"emulate_s", "/emulate_s", "emulating the kernel, s"},
    {"footprint_bytes", "/prep/footprint_bytes", "packed A, bytes"},
    {"index_bytes", "/prep/index_bytes", "packed A without its values, bytes"},
    {"value_bytes", "/prep/value_bytes", "values of the packed A with their padding, bytes"},
    {"tiles", "/prep/tiles", "tiles of the packed A"},
    {"mean_nnz_tc", "/prep/mean_nnz_tc", "mean nonzeros per TC block"},
    {"tile_density", "/prep/tile_density", "share of a tile's cells that are nonzero"},
    {"padding_ratio", "/prep/padding_ratio", "stored zeros per nonzero"},
    {"mma", "/work_description/mma", "MMAs of a launch"},
    {"sampled_share", "/simulation/sampled_share", "of the thread blocks, those simulated"},
    {"time_error_pct", "/simulation/time_error_pct",
     "half the 95 % interval that sampling leaves of a simulated time, %; 0: all was simulated"},
    {"l2_read_error_pct", "/simulation/l2_read_error_pct", "the same of l2_read_sectors, %"},
    {"dram_read_error_pct", "/simulation/dram_read_error_pct", "the same of dram_read_bytes, %"},
    {"dram_write_error_pct", "/simulation/dram_write_error_pct", "the same of dram_write_bytes, %"},
    {"simulate_s", "/simulation/seconds", "simulating the product, s"},
    {"counters_source", "/counters_source", "what counted: cupti or ncu"},
    {"l1_hit_pct", "/counters/l1tex__t_sector_hit_rate.pct", "sectors found in L1, %"},
    {"l2_hit_pct", "/counters/lts__t_sector_hit_rate.pct", "sectors found in L2, %"},
    {"l1_load_sectors", "/counters/l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
     "sectors of 32 bytes that loads asked the L1 for"},
    {"l2_read_sectors", "/counters/lts__t_sectors_op_read.sum",
     "sectors of 32 bytes read from L2, by SMs and its other partition"},
    {"dram_read_bytes", "/counters/dram__bytes_read.sum", "read from device memory, bytes"},
    {"dram_write_bytes", "/counters/dram__bytes_write.sum", "written to device memory, bytes"},
    {"mma_executed", "/counters/sm__inst_executed_pipe_tensor.sum",
     "instructions of the tensor cores, of a warp each"},
    {"instructions", "/counters/sm__inst_executed.sum", "instructions of a warp each"},
    {"tensor_pct", "/counters/sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed",
     "cycles in which the tensor cores worked, %"},
    {"warps_active_pct", "/counters/sm__warps_active.avg.pct_of_peak_sustained_active",
     "resident warps, % of what an SM holds"},
};

/// In ns, unlike every other time.
constexpr const char* kCountedTime = "/counters/gpu__time_duration.sum";

/// The columns "kernel.precision", ... of everything registered.
template <class T>
void add_parameters(const std::string& stage, std::map<std::string, std::string>& columns) {
  for (const auto& [name, entry] : Registry<T>::instance().entries())
    for (const ParamSpec& spec : entry.params)
      columns[stage + "." + spec.name] = fmt::format("{} of {}", spec.name, name);
}

/// What a record of a packed matrix says of its pattern.
const std::vector<NamedValue>& statistics_columns() {
  static const std::vector<NamedValue> columns = [] {
    std::vector<NamedValue> all = named_values(statistics(CsrMatrix{}));
    std::ranges::copy(named_values(SquareCount{}), std::back_inserter(all));
    return all;
  }();
  return columns;
}

void add_values(const Json& params, Row& row) {
  if (params.value("backend", "") == "reorder") return;  // only the pattern counts
  const Variant values = parse_values(params.value("values", "auto"));
  row["values"] = values.name;
  for (const auto& [name, value] : values.params.values())
    std::visit([&, &key = name](const auto& v) { row["values." + key] = v; }, value);
}

/// "shuffle(of=cora, seed=3)" is cora in random order.
void add_shuffled(Row& row) {
  constexpr std::string_view kShuffle = "shuffle(of=";
  std::string base = row.at("matrix");
  row["shuffled"] = base.starts_with(kShuffle);
  if (row["shuffled"] == true) {
    base = base.substr(kShuffle.size(), base.size() - kShuffle.size() - 1);
    for (const char* other : {", seed=", ", sides="}) base = base.substr(0, base.rfind(other));
  }
  row["base"] = base;
}

/// "count" becomes the column stage_count_us.
std::string stage_column(std::string name) {
  std::ranges::replace_if(
      name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return "stage_" + name + "_us";
}

/// What only sparse products have, beside what is in kSources.
void add_sparse_product(const Json& record, Row& row) {
  if (const auto peak = row.find("peak_bytes"); peak != row.end())
    row["peak_mb"] = 1e-6 * peak->second.get<double>();
  if (!record.contains("stages")) return;
  row["stages"] = record["stages"];
  for (const Json& stage : record["stages"]) row[stage_column(stage["name"])] = stage["us"];
}

Row flat_row(const PlanEntry& entry, const Json& record, const RecordSet& records) {
  Row row;
  for (const Source& source : kSources) {
    const Json::json_pointer pointer(source.pointer);
    if (record.contains(pointer) && !record[pointer].is_null())
      row[source.column] = record[pointer];
  }
  for (const char* part : {"statistics", "analysis"})
    if (const auto found = record.find(part); found != record.end())
      for (const auto& [name, value] : found->items())
        if (!value.is_null()) row.try_emplace(name, value);
  row["matrix"] = entry.matrix;
  add_shuffled(row);
  for (const char* stage : {"reorder", "format", "kernel", "model"}) {
    if (!record["params"].contains(stage)) continue;
    for (const auto& [name, value] : record["params"][stage].items())
      if (name != "name") row[std::string(stage) + "." + name] = value;
  }
  add_values(record["params"], row);
  for (const char* pointer : {"/time/median_us", "/prediction/time_us"})
    if (record.contains(Json::json_pointer(pointer)))
      row["time_us"] = record[Json::json_pointer(pointer)];
  if (const Json::json_pointer ns(kCountedTime); record.contains(ns))
    row["counted_us"] = 1e-3 * record[ns].get<double>();
  // Measured points name the GPU they ran on, the others a described device.
  if (record["params"].contains("device")) {
    row["device"] = record["params"]["device"];
  } else if (const auto env = records.environments.find(record.value("env_id", ""));
             env != records.environments.end() && env->second.contains("gpu")) {
    row["device"] = env->second["gpu"].value("name", "");
  }
  add_sparse_product(record, row);
  for (const auto& [label, value] : entry.labels) row[label] = value;
  return row;
}

std::string origin_of(const Row& row, const std::string& column, const Config& config,
                      std::span<const Derive> derives);

/// Whether what was unfolded into the row are times.
bool unfolds_stages(const Row& row, const Config& config) {
  return std::ranges::any_of(config.unfolds, [&](const Unfold& unfold) {
    return unfold.of == "stages" && row.at("unfolded") == unfold.name;
  });
}

/// Of what is computed from values of several origins: that of the joined one if there is any, so
/// that a prediction over a measurement is no measurement; counted if all are.
std::string origin_of_derived(const Row& row, const Derive& derive, const Config& config,
                              std::span<const Derive> before) {
  const auto used = variables_of(derive);
  bool counted = !used.empty();
  for (const std::string& variable : used) {
    const std::string origin = origin_of(row, variable, config, before);
    if (origin == "counted") continue;
    counted = false;
    if (origin != cell_text(row, "origin") && origin != "measured") return origin;
  }
  return counted ? "counted" : cell_text(row, "origin");
}

/// Of a column that is derived, only what was derived before it can be part.
std::string origin_of(const Row& row, const std::string& column, const Config& config,
                      std::span<const Derive> derives) {
  for (std::size_t d = derives.size(); d-- > 0;)
    if (derives[d].name == column && !derives[d].expr.empty())
      return origin_of_derived(row, derives[d], config, derives.first(d));
  for (const Join& join : config.joins)
    for (const std::string& from : join.columns)
      if (column == joined_name(join, from))
        return origin_of({{"origin", cell_text(row, joined_name(join, "origin"))}}, from, config,
                         {});
  const auto source = std::ranges::find(kSources, column, &Source::column);
  const std::string_view pointer = source == std::end(kSources) ? "" : source->pointer;
  if (pointer.starts_with("/unpermute/")) return "measured";
  if (pointer.starts_with("/prep/")) {
    const bool of_host = pointer.ends_with("_s") || pointer.starts_with("/prep/reorder_");
    return of_host ? "measured" : "counted";  // of the packed A
  }
  const bool of_pattern = std::ranges::find(statistics_columns(), column, &NamedValue::name) !=
                          statistics_columns().end();
  const bool unfolded =
      is_unfolded(row) && (column == "count" || column == "share") && !unfolds_stages(row, config);
  if (of_pattern || unfolded || pointer.starts_with("/matrix/") ||
      pointer.starts_with("/work_description/") || pointer == "/products")
    return "counted";
  return cell_text(row, "origin");
}

}  // namespace

std::vector<Row> make_rows(const Plan& plan, const RecordSet& records, const Config& config) {
  std::map<std::string, const Json*> by_hash;
  for (const Json& record : records.points) by_hash[record.at("params_hash")] = &record;
  std::vector<Row> rows;
  for (const PlanEntry& entry : plan.entries)
    if (const auto found = by_hash.find(entry.hash); found != by_hash.end())
      rows.push_back(flat_row(entry, *found->second, records));

  for (const Join& join : config.joins) join_rows(join, config, rows);
  for (const Derive& derive : config.derives) derive_column(derive, config, rows);
  for (const Unfold& unfold : config.unfolds) unfold_rows(unfold, config, rows);
  for (const Reduce& reduce : config.reduces) reduce_rows(reduce, config, rows);
  return rows;
}

const std::map<std::string, std::string>& row_columns() {
  static const std::map<std::string, std::string> columns = [] {
    std::map<std::string, std::string> all{
        {"matrix", "short name of A"},
        {"shuffled", "A is a matrix in random order"},
        {"base", "that matrix; A itself where it is not shuffled"},
        {"values", "value family of A and B"},
        {"time_us", "median of launches or packings, or its prediction, us"},
        {"counted_us", "time of the counted product, with counting on, us"},
        {"peak_mb", "peak_bytes in 10^6"},
        {"stages", "stages of a sparse product with memory from a pool; each is stage_NAME_us"},
        {"device", "described device, or the GPU measured on"},
        {"step", "label of an ablation step"},
        {"case", "name of a [[case]]"},
        {"chosen", "what a [[reduce]] picked"},
        {"unfolded", "name of the [[unfold]] that made the row"},
        {"count", "what falls into a bin of an unfolded histogram"},
        {"share", "share of it in all bins"}};
    for (const NamedValue& figure : statistics_columns()) all[figure.name] = figure.meaning;
    for (const NamedValue& figure : analyse(count_for_models(CsrMatrix{}, false), 1, Device{}))
      all[figure.name] = figure.meaning;
    for (const Source& source : kSources) all[source.column] = source.meaning;
    add_parameters<Reordering>("reorder", all);
    add_parameters<Format>("format", all);
    add_parameters<SpmmKernel>("kernel", all);
    add_parameters<SpgemmKernel>("kernel", all);
    add_parameters<Model>("model", all);
    add_parameters<ValueFamily>("values", all);
    return all;
  }();
  return columns;
}

std::string value_origin(const Row& row, const std::string& column, const Config& config) {
  return origin_of(row, column, config, config.derives);
}

void check_column(const std::string& column, const std::vector<Row>& rows, const Config& config,
                  const SourceLocation& place) {
  std::set<std::string> known;
  for (const auto& [name, meaning] : row_columns()) known.insert(name);
  for (const Join& join : config.joins) {
    known.insert(joined_name(join, "origin"));
    for (const std::string& name : join.columns) known.insert(joined_name(join, name));
  }
  for (const Derive& derive : config.derives) known.insert(derive.name);
  for (const Unfold& unfold : config.unfolds) known.insert(unfold.name);
  for (const Row& row : rows)
    for (const auto& [name, value] : row) known.insert(name);
  if (known.contains(column)) return;
  throw Error(place + ": " + unknown_name_message("column", column, {known.begin(), known.end()}));
}

std::vector<Row> select(const std::vector<Row>& rows, const Settings& where) {
  std::vector<Row> selected;
  for (const Row& row : rows) {
    if (!where.contains("status") && row.at("status") != "ok") continue;
    if (!where.contains("unfolded") && is_unfolded(row)) continue;
    if (matches(row, where)) selected.push_back(row);
  }
  return selected;
}

std::string cell_text(const Row& row, const std::string& column) {
  const auto found = row.find(column);
  if (found == row.end()) return "";
  const Json& value = found->second;
  if (value.is_null()) return "";
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return fmt::format("{:.6g}", value.get<double>());
  return value.dump();
}

}  // namespace tessera
