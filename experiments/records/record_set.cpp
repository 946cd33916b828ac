#include "experiments/records/record_set.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "experiments/records/json_depth.hpp"
#include "experiments/records/json_texts.hpp"
#include "formats/base/check.hpp"

namespace tessera {
namespace {

std::string read_file(const std::string& path) {
  // A pipe may never end, and neither does a device.
  require(!std::filesystem::exists(path) || std::filesystem::is_regular_file(path),
          "{}: records are in regular files, and this is none", path);
  std::ifstream file(path, std::ios::binary);
  require(file.good(), "{}: cannot be read", path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> record_files(const std::string& folder_or_file) {
  namespace fs = std::filesystem;
  if (!fs::is_directory(folder_or_file)) {
    require(fs::exists(folder_or_file), "{}: there is no such record file or folder",
            folder_or_file);
    return {folder_or_file};
  }
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(folder_or_file))
    if (entry.path().extension() == ".jsonl") files.push_back(entry.path().string());
  std::ranges::sort(files);
  return files;
}

/// True for a line of plain ASCII without escapes, whose texts hold no control characters.
bool is_plain(std::string_view line) {
  return std::ranges::none_of(line,
                              [](unsigned char c) { return c == '\\' || c < 0x20 || c >= 0x7f; });
}

/// The record in a line, its texts escaped; discarded when the line is no JSON object. Throws an
/// Error with the place for one whose nesting would end the stack of whoever copies it.
Json parse_line(std::string_view line, const std::string& path, int number) {
  require(json_depth(line) <= kDeepestJson, "{}:{}: a record nests at most {} levels", path, number,
          kDeepestJson);
  Json record = Json::parse(line, nullptr, false);
  if (!record.is_object()) return Json::value_t::discarded;
  if (!is_plain(line)) escape_texts(record);
  return record;
}

/// Throws an Error unless the line has the keys that every reader of records relies on.
void check_record(const Json& line, const std::string& place) {
  const auto require_text = [&](std::initializer_list<const char*> keys) {
    for (const char* key : keys)
      require(line.contains(key) && line[key].is_string(), "{}: a record needs '{}', a text", place,
              key);
  };
  const Json schema = line.value("schema", Json());
  require(schema == kRecordSchema, "{}: a record of schema {}, this program reads schema {}", place,
          schema.dump(), kRecordSchema);
  require_text({"type"});
  if (line["type"] == "env") return require_text({"env_id"});
  require(line["type"] == "point", "{}: a record of unknown type {}", place, line["type"].dump());
  require_text({"point_id", "params_hash", "status", "finished_at"});
  require(line.contains("params") && line["params"].is_object(),
          "{}: a record needs 'params', an object", place);
  if (line.contains("after")) require_text({"after"});
}

/// Orders attempts in time: an attempt follows what it replaces, whatever the clocks said.
std::tuple<std::string, bool, std::string> time_order(const Json& record) {
  const std::string finished = record["finished_at"], after = record.value("after", "");
  return {std::max(finished, after), after >= finished, finished};
}

}  // namespace

std::string time_of(const Json& record) { return std::get<0>(time_order(record)); }

bool is_later(const Json& a, const Json& b) { return time_order(a) > time_order(b); }

std::vector<Json> read_json_lines(const std::string& path) {
  const std::string text = read_file(path);
  std::vector<Json> lines;
  std::size_t begin = 0;
  for (int number = 1; begin < text.size(); ++number) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    Json line = parse_line(std::string_view(text).substr(begin, end - begin), path, number);
    if (line.is_discarded() && end == text.size()) break;  // torn: its end was never written
    require(!line.is_discarded(), "{}:{}: not a record: a line holds one JSON object", path,
            number);
    lines.push_back(std::move(line));
    begin = end + 1;
  }
  return lines;
}

RecordSet read_records(const std::string& folder_or_file, bool each_machine) {
  const std::vector<std::string> files = record_files(folder_or_file);
  RecordSet set;
  std::vector<Json> attempts;
  for (const std::string& file : files) {
    int number = 0;
    for (Json& line : read_json_lines(file)) {
      check_record(line, fmt::format("{}:{}", file, ++number));
      if (line["type"] == "point") {
        attempts.push_back(std::move(line));
      } else {
        const std::string id = line["env_id"];
        set.environments[id] = std::move(line);
      }
    }
  }
  if (files.size() > 1) std::ranges::stable_sort(attempts, {}, time_order);

  std::set<std::pair<std::string, std::string>> seen;
  for (auto attempt = attempts.rbegin(); attempt != attempts.rend(); ++attempt) {
    const std::string machine = each_machine ? attempt->value("env_id", "") : "";
    if (seen.emplace((*attempt)["point_id"], machine).second)
      set.points.push_back(std::move(*attempt));
  }
  std::ranges::reverse(set.points);
  return set;
}

RecordWriter::RecordWriter(const std::string& path) : path_(path) {
  const auto folder = std::filesystem::path(path).parent_path();
  std::error_code failed;
  if (!folder.empty()) std::filesystem::create_directories(folder, failed);
  require(!failed, "{}: the folder cannot be made: {}", folder.string(), failed.message());
  file_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0644);
  require(file_ >= 0, "{}: cannot be opened for writing: {}", path, std::strerror(errno));
  try {
    lock();
    remove_torn_line();
  } catch (const Error&) {
    close(file_);
    throw;
  }
}

void RecordWriter::lock() const {
  struct stat about = {};
  require(fstat(file_, &about) == 0 && S_ISREG(about.st_mode),
          "{}: records are in regular files, and this is none", path_);
  require(flock(file_, LOCK_EX | LOCK_NB) == 0, "{}: another run is writing to it", path_);
}

void RecordWriter::remove_torn_line() const {
  const std::string text = read_file(path_);
  const std::size_t last = text.rfind('\n');
  std::size_t whole = last == std::string::npos ? 0 : last + 1;
  const bool is_record =
      Json::parse(std::string_view(text).substr(whole), nullptr, false).is_object();
  if (is_record) whole = text.size();
  const auto size = static_cast<off_t>(whole);
  const bool cut = ftruncate(file_, size) == 0 && lseek(file_, size, SEEK_SET) >= 0;
  require(cut && (!is_record || write(file_, "\n", 1) == 1), "{}: cannot be extended: {}", path_,
          std::strerror(errno));
}

RecordWriter::~RecordWriter() { close(file_); }

void RecordWriter::append(const Json& record) {
  // NaN and infinities have no JSON: dump() writes them as null. Bytes that are no UTF-8 (in a
  // path) are replaced.
  const std::string line = record.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  std::size_t written = 0;
  while (written < line.size()) {
    const ssize_t got = write(file_, line.data() + written, line.size() - written);
    if (got < 0 && errno == EINTR) continue;
    require(got > 0, "{}: a record could not be written: {}", path_, std::strerror(errno));
    written += static_cast<std::size_t>(got);
  }
  fdatasync(file_);
}

}  // namespace tessera
