// The attempts of a record set, each without what it found: that stays in the file until it is
// asked for, so that a set of a million records is read in seconds and in little memory.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <memory_resource>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "experiments/points/point.hpp"
#include "experiments/records/json_line.hpp"
#include "experiments/records/line_reader.hpp"

namespace tessera {

/// A line of a record file.
struct RecordLine {
  const JsonLine& json;   // as dump() writes it, whatever the line is like
  std::string_view text;  // as it is in the file
  bool as_dumped;         // both are the same
  const LineReader& reader;

  std::string place() const;  // "file:number", 1 for the first; takes long, for errors
};

/// Calls `visit` with every complete line of a file. Throws an Error "file:line: ..." for a line
/// that is no JSON object, unless it is a torn last one, or nests too deep.
void for_each_line(const std::string& path, const std::function<void(const RecordLine&)>& visit,
                   const FilePiece& piece = {});

/// A point's record as far as sets are made by it, and its place. Its texts are in the index.
struct IndexedRecord {
  std::size_t number = 0;  // of the record, as they were read, 0 for the first
  std::string_view point_id = {};
  std::string_view params_hash = {};
  std::string_view status = {};
  std::string_view finished_at = {};
  std::string_view after = {};  // empty where there is none
  std::uint32_t machine = 0;    // place of its env_id in RecordIndex::machines
  std::uint32_t file = 0;       // place in RecordIndex::files
  std::uint32_t checksum = 0;   // of the line
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  bool as_dumped = true;  // the line is as dump() writes it
};

/// When a point's record counts as finished, UTC: never before the attempt that it replaces, which
/// a machine whose clock was ahead may have dated in the future.
std::string_view time_of(const IndexedRecord& attempt);

/// True when `a` was finished after `b` in this sense.
bool is_later(const IndexedRecord& a, const IndexedRecord& b);

/// The last attempts of a folder or a .jsonl file, in the order of RecordSet.
struct RecordIndex {
  std::vector<std::string> files = {};
  std::vector<IndexedRecord> points = {};
  std::map<std::string, Json> environments = {};  // by env_id
  std::vector<std::string> machines = {};         // env_ids of attempts; "" where one has none
  // Hold the texts of the points: a string each would take most of the time and memory.
  std::vector<std::unique_ptr<std::pmr::monotonic_buffer_resource>> texts = {};
};

/// Is called with every attempt of a piece of the files, the replaced ones included, in the order
/// of their numbers.
using VisitAttempt = std::function<void(const JsonLine&)>;

/// Reads them with every core, in pieces. `visitor_of_piece` makes what visits the attempts of one
/// piece, on some thread; it is called for the pieces in their order before any is read, so that
/// what the visitors find, put together in that order, is in the order of the attempts' numbers.
/// With `each_machine`, a point has the last attempt of every environment. Throws the Errors of
/// read_records().
RecordIndex read_index(const std::string& folder_or_file, bool each_machine = false,
                       const std::function<VisitAttempt()>& visitor_of_piece = {});

/// The lines of a list's attempts, fastest in the order of their files.
class IndexedLines {
 public:
  explicit IndexedLines(const RecordIndex& list) : list_(&list) {}

  /// The attempt's line as dump() writes it, until the next call. Throws an Error when the file has
  /// changed since the list was read.
  std::string_view line(const IndexedRecord& attempt);

 private:
  const RecordIndex* list_;
  std::vector<OpenFile> files_;
  std::string window_;  // a part of a file
  std::uint32_t file_ = 0;
  std::uint64_t begin_ = 0;  // its offset
  std::string dumped_;
};

}  // namespace tessera
