// Configs, records, points, permutations, devices, the catalogue and the index of the collection.
//
// Kernels, reorderings, models and backends are stand-ins with a parameter of each type: the code
// that reads their names and parameters is the same, and hundreds of files need no compiling.
#include <cstdlib>
#include <optional>

#include "experiments/config/collection_query.hpp"
#include "experiments/config/config.hpp"
#include "experiments/config/matrix_catalogue.hpp"
#include "experiments/points/point.hpp"
#include "experiments/records/point_text.hpp"
#include "experiments/records/record_set.hpp"
#include "experiments/verbs/permutation_file.hpp"
#include "formats/base/permutation.hpp"
#include "formats/base/registry.hpp"
#include "formats/io/call_syntax.hpp"
#include "formats/io/collection_index.hpp"
#include "kernels/spgemm_kernel.hpp"
#include "kernels/spmm_kernel.hpp"
#include "model/device.hpp"
#include "model/model.hpp"
#include "reorder/reordering.hpp"
#include "tests/fuzz/target.hpp"

namespace tessera::fuzz {
namespace {

template <class Stage>
Entry<Stage> stand_in(const char* name) {
  return {.name = name,
          .summary = "",
          .params = {{"flag", true, ""},
                     {"integer", std::int64_t{3}, "", {}, 1, 9},
                     {"real", 0.5, ""},
                     {"text", std::string("a"), "", {"a", "b"}}},
          .make = {}};
}

const Register<SpmmKernel> dense{stand_in<SpmmKernel>("dense")};
const Register<SpgemmKernel> sparse{stand_in<SpgemmKernel>("sparse")};
const Register<Reordering> order{stand_in<Reordering>("order")};
const Register<Model> model{stand_in<Model>("model")};
const RegisterTraits<BackendTraits> emulate{"emulate", "", {.computes_c = true}};
const RegisterTraits<BackendTraits> predict{"model", "", {.needs_device = true, .predicts = true}};
const RegisterTraits<BackendTraits> simulate{
    "simulate", "", {.needs_device = true, .simulates = true}};
const RegisterTraits<BackendTraits> gpu{
    "gpu", "", {.computes_c = true, .measures = true, .counts = true, .needs_gpu = true}};
const RegisterTraits<BackendTraits> packs{"pack", "", {.activity = Activity::kPack}};
const RegisterTraits<BackendTraits> reorders{"reorder", "", {.activity = Activity::kReorder}};
const RegisterTraits<CounterSourceTraits> counters{"cupti", "", {.auto_rank = 1}};

/// Calls it; an Error is a refusal.
template <class Call>
void try_it(Call call) {
  try {
    call();
  } catch (const Error& error) {
    refused(error);
  }
}

void read_config(std::string_view input) {
  const std::string path = scratch_file("a.toml", input);
  for (const bool gpu_absent : {false, true})
    try_it([&] { load_config(path, {}, {.gpu = gpu_absent, .data = gpu_absent}); });
}

/// A text of --set over a good config.
void read_set(std::string_view input) {
  const std::string path = scratch_file("a.toml",
                                        "schema = 1\n[experiment]\nid = \"a\"\n"
                                        "backends = [\"emulate\"]\n[grid]\nmatrix = [\"a\"]\n"
                                        "[[figure]]\nid = \"b\"\nkind = \"bars\"\n"
                                        "x = \"matrix\"\ny = \"gflops\"\n"
                                        "series = \"kernel\"\n");
  load_config(path, {std::string(input)});
}

void read_lines(std::string_view input) {
  const std::string path = scratch_file("records.jsonl", input);
  const RecordSet before = read_records(path);
  for (const Json& point : before.points) {
    time_of(point);
    try_it([&] {
      const Record record = record_from_json(point);
      const Json once = to_json(record);
      const Json twice = to_json(record_from_json(once));
      check(once.dump() == twice.dump(), "a record changes when it is read and written again");
    });
  }
  // A writer that goes on with the file loses none.
  { const RecordWriter writer(path); }
  check(read_records(path).points == before.points, "a writer changes the records before it");
}

void read_point(std::string_view input) {
  const Point point = point_from_text(std::string(input));
  const Json json = to_json(point);
  check(to_json(point_from_json(json)).dump() == json.dump(),
        "a point changes when it is read and written again");
  params_hash(point);
  task_text(point);
}

void read_order(const std::string& suffix, std::string_view input) {
  const Permutation order = read_permutation(scratch_file("order" + suffix, input));
  check(order.inverse().inverse() == order, "what was read is no permutation");
}

void read_device_file(std::string_view input) {
  const std::string text = device_text(read_device(scratch_file("device.toml", input)));
  check(device_text(read_device(scratch_file("device.toml", text))) == text,
        "a device changes when it is read and written again");
}

void read_catalogue(std::string_view input) {
  const std::string place = "experiments/configs/catalogue/matrices.toml";
  const std::string path = scratch_file("home/" + place, input);
  setenv("TESSERA_HOME", path.substr(0, path.size() - place.size()).c_str(), 1);
  for (const auto& [matrix, digits] : matrix_catalogue().sha256)
    check(digits.size() == 64, "the catalogue has a checksum of " + digits);
}

/// The index of the collection, and what a query selects from it.
void read_index(std::string_view input) {
  setenv("TESSERA_COLLECTION_INDEX", scratch_file("ssstats.csv", input).c_str(), 1);
  const std::optional<CollectionIndex> index = collection_index();
  check(index && !index->matrices.empty(), "an index without matrices is none");
  check(select_matrices(*index, "rows >= 0", "here").size() == index->matrices.size(),
        "a query loses matrices");
}

void select(std::string_view input) {
  CollectionIndex index;
  for (const std::int64_t rows : {1, 1000})
    index.matrices.push_back(
        {.group = "a", .name = std::to_string(rows), .rows = rows, .cols = 5, .kind = ""});
  select_matrices(index, std::string(input), "here");
}

/// "name(key=value)", and the same written again.
void read_formula(std::string_view input) {
  const Call call = parse_call(input);
  const Call twice = parse_call(call_text(call.name, call.given));
  check(twice.name == call.name && twice.given == call.given,
        "a formula changes when it is read and written again");
}

}  // namespace

std::map<std::string, Target> experiment_targets() {
  return {{"config", read_config},
          {"config.set", read_set},
          {"records", read_lines},
          {"point", read_point},
          {"device", read_device_file},
          {"catalogue", read_catalogue},
          {"index", read_index},
          {"index.query", select},
          {"formula", read_formula},
          {"permutation.txt", [](std::string_view input) { read_order(".txt", input); }},
          {"permutation.npy", [](std::string_view input) { read_order(".npy", input); }}};
}

}  // namespace tessera::fuzz
