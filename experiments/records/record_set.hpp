// Records: what happened to each point, one JSON line per attempt, appended and flushed.
//
// A folder of *.jsonl files is a record set. Lines are only ever appended; a later line for the
// same point takes the place of an earlier one when the set is read, and of two files the line that
// was finished later. A last line that is no whole JSON object is the trace of a killed writer:
// it is ignored, and cut off before the next append.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "experiments/records/record.hpp"

namespace tessera {

/// Every complete line of a file. Throws an Error "file:line: ..." for a line that is not JSON,
/// unless it is a torn last one.
std::vector<Json> read_json_lines(const std::string& path);

/// All records of a folder (or of one .jsonl file): points in the order of their last attempts,
/// each as that left it; env records by env_id. Throws an Error "file:line: ..." for a line that is
/// no record, or of another schema.
struct RecordSet {
  std::vector<Json> points;
  std::map<std::string, Json> environments;
};
/// With `each_machine`, a point has the last attempt of every environment.
RecordSet read_records(const std::string& folder_or_file, bool each_machine = false);

/// When a point's record counts as finished, UTC: never before the attempt that it replaces, which
/// a machine whose clock was ahead may have dated in the future.
std::string time_of(const Json& record);

/// True when `a` was finished after `b` in this sense.
bool is_later(const Json& a, const Json& b);

/// Appends lines to one file. Two writers of one file are refused (a lock on the file).
class RecordWriter {
 public:
  /// Creates the folder when needed and cuts off a torn last line.
  explicit RecordWriter(const std::string& path);
  ~RecordWriter();
  RecordWriter(const RecordWriter&) = delete;
  RecordWriter& operator=(const RecordWriter&) = delete;

  /// One line, on the disk when this returns.
  void append(const Json& record);

  /// One line, which other processes see at once, and which is on the disk after sync(): many lines
  /// wait for the disk once.
  void add(const Json& record);
  void sync();

 private:
  void lock() const;
  void remove_torn_line() const;

  std::string path_;
  int file_ = -1;
  bool unsynced_ = false;
};

}  // namespace tessera
