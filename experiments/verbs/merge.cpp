// tessera merge: the merge records of shards and machines into one set and a CSV file.

#include <algorithm>
#include <deque>
#include <future>
#include <memory_resource>
#include <ostream>
#include <set>
#include <span>
#include <unordered_map>

#include "experiments/records/record_index.hpp"
#include "experiments/tables/records_csv.hpp"
#include "experiments/tables/write_file.hpp"
#include "experiments/verbs/verb.hpp"
#include "formats/base/amounts.hpp"
#include "formats/base/check.hpp"
#include "formats/base/parallel.hpp"
#include "formats/base/registry.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kBlock = 2048;  // records that a thread makes text of at a time

/// The attempts of a source, and the shapes of their records by number.
struct Source {
  RecordIndex list;
  std::vector<std::uint64_t> shapes;
  std::unordered_map<std::uint64_t, std::string> examples;  // a record of every shape
};

/// The shapes of the attempts in a piece of a source.
struct FoundShapes {
  std::vector<std::uint64_t> shapes = {};
  std::unordered_map<std::uint64_t, std::string> examples = {};

  void add(const JsonLine& record) {
    const std::uint64_t shape = shape_of(record);
    shapes.push_back(shape);
    if (!examples.contains(shape)) examples[shape] = record.line();
  }
};

/// What some records are in both files.
struct Block {
  std::string jsonl;
  std::string csv;
  std::set<std::string> missing;  // columns that the table does not have
};

/// A record of one of the sources.
struct Chosen {
  std::size_t source = 0;
  const IndexedRecord* record = nullptr;
};

/// Makes the text of records, block by block.
class Maker {
 public:
  Maker(const std::vector<Source>& sources, const std::map<std::string, Json>& environments,
        const std::set<std::string>& columns)
      : table_(environments) {
    for (const Source& source : sources) lines_.emplace_back(source.list);
    table_.header(columns);
  }

  void fill(Block& block, std::span<const Chosen> chosen) {
    for (const auto& [source, record] : chosen) {
      const std::string_view line = lines_[source].line(*record);
      block.jsonl.append(line).append("\n");
      require(values_.read(line, true), "{}: not a record", record->point_id);
      block.csv += table_.row(values_, block.missing);
    }
  }

 private:
  std::vector<IndexedLines> lines_;  // of each source
  RecordsCsv table_;
  JsonLine values_;
};

class MergeVerb final : public Verb {
 public:
  void declare(CLI::App& app) override {
    app.add_option("RECORDS", paths_, "record files, or folders of them")->required();
    app.add_option("--out", out_, "folder for records.jsonl and records.csv")
        ->required()
        ->takes("FOLDER");
    app.example("tessera merge out/shard1 out/shard2 --out out/all",
                "the records of two shards in one");
  }

  int run() override {
    read();
    for (std::size_t s = 0; s < sources_.size(); ++s)
      for (const IndexedRecord& record : sources_[s].list.points) add({s, &record});
    std::erase_if(chosen_, [](const Chosen& one) { return one.record == nullptr; });
    std::set<std::string> columns = columns_of_chosen();
    while (!write(columns)) continue;
    fmt::print(stderr, "{}, {}, {} doubled{}; in {}\n", counted(std::ssize(place_), "point"),
               counted(std::ssize(environments_), "environment"), doubled_,
               beside_ > 0
                   ? fmt::format(", {} of another machine beside them", counted(beside_, "result"))
                   : "",
               out_);
    return kOk;
  }

 private:
  /// A thread for each source, or several for the only one.
  void read() {
    sources_.resize(paths_.size());
    parallel_for(std::ssize(paths_), 1, [&](std::int64_t i, std::int64_t) {
      Source& source = sources_[i];
      std::deque<FoundShapes> pieces;
      source.list = read_index(paths_[i], true, [&pieces] {
        return [&piece = pieces.emplace_back()](const JsonLine& record) { piece.add(record); };
      });
      for (FoundShapes& piece : pieces) {
        source.shapes.insert(source.shapes.end(), piece.shapes.begin(), piece.shapes.end());
        source.examples.merge(piece.examples);
      }
    });
    std::size_t points = 0;
    for (Source& source : sources_) {
      environments_.merge(source.list.environments);
      examples_.merge(source.examples);
      points += source.list.points.size();
    }
    chosen_.reserve(points);
    place_.reserve(points);
  }

  /// Keeps the record of every machine, the latest last, where readers look for a point's. A result
  /// takes the place of failures, whichever machine they are of.
  void add(const Chosen& one) {
    std::pmr::vector<std::size_t>& places = place_[one.record->point_id];
    if (!places.empty() && is_result(one) != is_result(chosen_[places.front()])) {
      ++doubled_;
      if (!is_result(one)) return;
      for (const std::size_t place : places) chosen_[place].record = nullptr;
      beside_ -= std::ssize(places) - 1;
      places.clear();
    }
    for (const std::size_t place : places) {
      Chosen& present = chosen_[place];
      if (machine_of(present) != machine_of(one)) continue;
      ++doubled_;
      if (is_later(*one.record, *present.record)) present = one;
      return keep_latest_last(places, present);
    }
    if (!places.empty()) ++beside_;
    places.push_back(chosen_.size());
    chosen_.push_back(one);
    if (places.size() > 1) keep_latest_last(places, chosen_[places.end()[-2]]);
  }

  void keep_latest_last(const std::pmr::vector<std::size_t>& places, Chosen& changed) {
    Chosen& last = chosen_[places.back()];
    if (is_later(*changed.record, *last.record)) std::swap(changed, last);
  }

  const std::string& machine_of(const Chosen& one) const {
    return sources_[one.source].list.machines[one.record->machine];
  }

  static bool is_result(const Chosen& one) {
    return one.record->status == "ok" || one.record->status == "wrong";
  }

  std::set<std::string> columns_of_chosen() const {
    std::set<std::uint64_t> shapes;
    for (const auto& [source, record] : chosen_)
      shapes.insert(sources_[source].shapes[record->number]);
    RecordsCsv csv(environments_);
    std::set<std::string> columns;
    JsonLine record;
    for (const std::uint64_t shape : shapes) {
      record.read(examples_.at(shape));
      columns.merge(csv.columns_of(record));
    }
    return columns;
  }

  /// Writes both files. False when a record needs a column that was not foreseen; `columns` has it
  /// then.
  bool write(std::set<std::string>& columns) const {
    const auto threads = static_cast<std::size_t>(num_threads());
    std::vector<Block> blocks(threads), written(threads);
    std::vector<Maker> makers;
    makers.reserve(threads);
    for (std::size_t t = 0; t < threads; ++t) makers.emplace_back(sources_, environments_, columns);
    const std::int64_t round = kBlock * std::ssize(blocks);
    std::set<std::string> missing;
    write_file(out_ + "/records.jsonl", [&](std::ostream& jsonl) {
      write_file(out_ + "/records.csv", [&](std::ostream& csv) {
        for (const auto& [id, environment] : environments_) jsonl << environment.dump() << "\n";
        csv << RecordsCsv(environments_).header(columns);
        std::future<void> writing;  // of a round, while the next one is made
        for (std::int64_t at = 0; at < std::ssize(chosen_); at += round) {
          const auto some =
              std::span(chosen_).subspan(at).first(std::min(round, std::ssize(chosen_) - at));
          parallel_for(std::ssize(some), kBlock, [&](std::int64_t begin, std::int64_t end) {
            makers[begin / kBlock].fill(blocks[begin / kBlock], some.subspan(begin, end - begin));
          });
          if (writing.valid()) writing.get();
          blocks.swap(written);
          writing = std::async(std::launch::async, [&] {
            for (Block& block : written) {
              jsonl << block.jsonl;
              csv << block.csv;
              missing.merge(block.missing);
              block.jsonl.clear();
              block.csv.clear();
            }
          });
        }
        if (writing.valid()) writing.get();
      });
    });
    columns.insert(missing.begin(), missing.end());
    return missing.empty();
  }

  std::vector<std::string> paths_;
  std::string out_;
  std::vector<Source> sources_;
  std::map<std::string, Json> environments_;
  std::unordered_map<std::uint64_t, std::string> examples_;  // a record of every shape
  std::vector<Chosen> chosen_;
  std::pmr::monotonic_buffer_resource place_memory_;  // a million allocations take a second
  std::pmr::unordered_map<std::string_view, std::pmr::vector<std::size_t>> place_{
      &place_memory_};  // of each point's
  int doubled_ = 0;
  std::int64_t beside_ = 0;  // records of a point beyond its first machine's
};

const Register<Verb> entry{{
    .name = "merge",
    .summary = "merge records of shards and machines into one set and a CSV file",
    .make = [](const Params&) { return std::make_unique<MergeVerb>(); },
}};

}  // namespace
}  // namespace tessera
