#include "experiments/records/record_index.hpp"

#include <algorithm>
#include <filesystem>
#include <unordered_set>
#include <utility>

#include "experiments/records/json_depth.hpp"
#include "experiments/records/json_texts.hpp"
#include "experiments/records/record.hpp"
#include "formats/base/check.hpp"
#include "formats/base/hash.hpp"

namespace tessera {
namespace {

constexpr std::size_t kWindow = std::size_t{1} << 20;  // bytes read at a time

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

/// Reads the keys that every reader of records relies on. Throws an Error with the place unless
/// they are there.
class RecordKeys {
 public:
  RecordKeys(const std::string& file, const RecordLine& line) : file_(file), line_(line) {}

  std::string text(const char* key) const { return JsonLine::text_of(quoted(key)); }

  void check_schema() const {
    const JsonLine::Value* schema = line_.json.find({"schema"});
    const std::string_view version = schema == nullptr ? "null" : schema->text;
    require(version == fmt::format_int(kRecordSchema).str(),
            "{}:{}: a record of schema {}, this program reads schema {}", file_, line_.number,
            version, kRecordSchema);
  }

  /// All of a point's attempt but its place and the machine, with its texts in `texts`.
  IndexedRecord attempt(std::pmr::memory_resource& texts) const {
    const auto kept = [&](const char* key) { return keep(quoted(key), texts); };
    IndexedRecord attempt{.point_id = kept("point_id"),
                          .params_hash = kept("params_hash"),
                          .status = kept("status"),
                          .finished_at = kept("finished_at")};
    const JsonLine::Value* params = line_.json.find({"params"});
    require(params != nullptr && params->kind == JsonLine::Kind::kObject,
            "{}:{}: a record needs 'params', an object", file_, line_.number);
    if (line_.json.find({"after"}) != nullptr) attempt.after = kept("after");
    return attempt;
  }

 private:
  /// The text of a key, in quotes and with its escapes.
  std::string_view quoted(const char* key) const {
    const JsonLine::Value* value = line_.json.find({key});
    require(value != nullptr && value->kind == JsonLine::Kind::kText,
            "{}:{}: a record needs '{}', a text", file_, line_.number, key);
    return value->text;
  }

  /// A copy without quotes and escapes.
  static std::string_view keep(std::string_view quoted, std::pmr::memory_resource& texts) {
    const std::string text = JsonLine::text_of(quoted);
    char* copy = static_cast<char*>(texts.allocate(text.size(), 1));
    std::ranges::copy(text, copy);
    return {copy, text.size()};
  }

  const std::string& file_;
  const RecordLine& line_;
};

/// Orders attempts in time: an attempt follows what it replaces, whatever the clocks said.
std::tuple<std::string_view, bool, std::string_view> time_order(const IndexedRecord& attempt) {
  const std::string_view finished = attempt.finished_at, after = attempt.after;
  return {std::max(finished, after), after >= finished, finished};
}

/// Keeps the last attempt of every point, or of every point and machine, in their order.
void keep_last(std::vector<IndexedRecord>& attempts, bool each_machine) {
  using Key = std::pair<std::string_view, std::uint32_t>;
  const auto hash = [](const Key& key) {
    return std::hash<std::string_view>()(key.first) ^ std::hash<std::uint32_t>()(key.second);
  };
  std::unordered_set<Key, decltype(hash)> seen(attempts.size(), hash);
  std::vector<bool> is_last(attempts.size());
  for (std::size_t i = attempts.size(); i-- > 0;)
    is_last[i] = seen.emplace(attempts[i].point_id, each_machine ? attempts[i].machine : 0).second;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < attempts.size(); ++i) {
    if (!is_last[i]) continue;
    if (kept != i) attempts[kept] = std::move(attempts[i]);
    ++kept;
  }
  attempts.resize(kept);
}

std::uint32_t checksum_of(std::string_view line) {
  return static_cast<std::uint32_t>(checksum(std::as_bytes(std::span(line))));
}

}  // namespace

std::string time_of(const IndexedRecord& attempt) {
  return std::string(std::get<0>(time_order(attempt)));
}

bool is_later(const IndexedRecord& a, const IndexedRecord& b) {
  return time_order(a) > time_order(b);
}

void for_each_line(const std::string& path, const std::function<void(const RecordLine&)>& visit) {
  LineReader lines(path);
  JsonLine json;
  while (lines.next()) {
    const std::string_view text = lines.line();
    std::string dumped;
    const bool is_plain = json.read(text) && json.is_plain();
    if (!is_plain) {
      require(json_depth(text) <= kDeepestJson, "{}:{}: a record nests at most {} levels", path,
              lines.number(), kDeepestJson);
      Json tree = Json::parse(text, nullptr, false);
      if (!tree.is_object() && !lines.has_end()) return;  // torn: its end was never written
      require(tree.is_object(), "{}:{}: not a record: a line holds one JSON object", path,
              lines.number());
      escape_texts(tree);
      dumped = tree.dump();
      require(json.read(dumped, true), "{}:{}: not a record: a text that cannot be written again",
              path, lines.number());
    }
    visit({json, text, is_plain || text == dumped, lines.offset(), lines.number()});
  }
}

RecordIndex read_index(const std::string& folder_or_file, bool each_machine,
                       const std::function<void(const JsonLine&)>& visit) {
  RecordIndex list{.files = record_files(folder_or_file)};
  std::map<std::string, std::uint32_t> machines;
  std::size_t number = 0;
  for (std::uint32_t file = 0; file < list.files.size(); ++file) {
    for_each_line(list.files[file], [&](const RecordLine& line) {
      const RecordKeys keys(list.files[file], line);
      keys.check_schema();
      const std::string type = keys.text("type");
      if (type == "env") {
        list.environments[keys.text("env_id")] = Json::parse(line.json.line());
        return;
      }
      require(type == "point", "{}:{}: a record of unknown type {}", list.files[file], line.number,
              line.json.find({"type"})->text);
      IndexedRecord& attempt = list.points.emplace_back(keys.attempt(*list.texts));
      const auto [machine, is_new] =
          machines.try_emplace(line.json.text_at({"env_id"}), list.machines.size());
      if (is_new) list.machines.push_back(machine->first);
      attempt.machine = machine->second;
      attempt.number = number++;
      attempt.file = file;
      attempt.checksum = checksum_of(line.text);
      attempt.offset = line.offset;
      attempt.size = line.text.size();
      attempt.as_dumped = line.as_dumped;
      if (visit) visit(line.json);
    });
  }
  if (list.files.size() > 1 && !std::ranges::is_sorted(list.points, {}, time_order))
    std::ranges::stable_sort(list.points, {}, time_order);
  keep_last(list.points, each_machine);
  return list;
}

std::string_view IndexedLines::line(const IndexedRecord& attempt) {
  if (files_.empty())
    for (const std::string& file : list_->files) files_.emplace_back(file);
  const bool is_here = attempt.file == file_ && attempt.offset >= begin_ &&
                       attempt.offset + attempt.size <= begin_ + window_.size();
  if (!is_here) {
    file_ = attempt.file;
    begin_ = attempt.offset;
    window_.resize(std::max<std::size_t>(attempt.size, kWindow));
    window_.resize(files_[file_].read(window_.data(), window_.size(), begin_));
  }
  std::string_view line(window_);
  line.remove_prefix(std::min<std::size_t>(attempt.offset - begin_, line.size()));
  line = line.substr(0, attempt.size);
  require(checksum_of(line) == attempt.checksum && line.size() == attempt.size,
          "{}: it was changed, not only extended, while it was read", list_->files[attempt.file]);
  if (attempt.as_dumped) return line;
  Json tree = Json::parse(line);
  escape_texts(tree);
  dumped_ = tree.dump();
  return dumped_;
}

}  // namespace tessera
