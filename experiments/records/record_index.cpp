#include "experiments/records/record_index.hpp"

#include <algorithm>
#include <array>
#include <exception>
#include <filesystem>
#include <unordered_set>
#include <utility>

#include "experiments/records/json_depth.hpp"
#include "experiments/records/json_texts.hpp"
#include "experiments/records/record.hpp"
#include "formats/base/check.hpp"
#include "formats/base/hash.hpp"
#include "formats/base/parallel.hpp"

namespace tessera {
namespace {

constexpr std::size_t kWindow = std::size_t{1} << 20;  // bytes read at a time
const std::string kSchema = std::to_string(kRecordSchema);
constexpr std::uint64_t kPiece = std::uint64_t{1} << 24;  // bytes of a file that a thread reads

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

/// Keys of a record that sets are made by, in ascending order of their names.
enum class RecordKey {
  kAfter,
  kEnvId,
  kFinishedAt,
  kParams,
  kParamsHash,
  kPointId,
  kSchema,
  kStatus,
  kType
};
constexpr std::array<const char*, 9> kKeyNames{"after",  "env_id",      "finished_at",
                                               "params", "params_hash", "point_id",
                                               "schema", "status",      "type"};

/// Reads the keys that every reader of records relies on. Throws an Error with the place unless
/// they are there.
class RecordKeys {
 public:
  explicit RecordKeys(const RecordLine& line) : line_(line) {
    const std::vector<JsonLine::Value>& values = line.json.values();
    std::size_t name = 0;
    for (std::size_t i = 1; i < values.size(); i = values[i].end) {
      while (name < kKeyNames.size() && precedes(kKeyNames[name], values[i].key)) ++name;
      if (name == kKeyNames.size()) break;
      if (kKeyNames[name] == values[i].key) found_[name] = &values[i];
    }
    if (line.json.is_plain()) return;
    // Escapes change the order of keys.
    for (name = 0; name < kKeyNames.size(); ++name)
      found_[name] = line.json.find({kKeyNames[name]});
  }

  /// Null when there is none.
  const JsonLine::Value* find(RecordKey key) const { return found_[static_cast<std::size_t>(key)]; }

  std::string text(RecordKey key) const { return JsonLine::text_of(quoted(key)); }

  void check_schema() const {
    const JsonLine::Value* schema = find(RecordKey::kSchema);
    const std::string_view version = schema == nullptr ? "null" : schema->text;
    if (version != kSchema)
      refuse("a record of schema {}, this program reads schema {}", version, kRecordSchema);
  }

  /// All of a point's attempt but its place and the machine, with its texts in `texts`.
  IndexedRecord attempt(std::pmr::memory_resource& texts) const {
    const auto kept = [&](RecordKey key) { return keep(quoted(key), texts); };
    IndexedRecord attempt{.point_id = kept(RecordKey::kPointId),
                          .params_hash = kept(RecordKey::kParamsHash),
                          .status = kept(RecordKey::kStatus),
                          .finished_at = kept(RecordKey::kFinishedAt)};
    const JsonLine::Value* params = find(RecordKey::kParams);
    if (params == nullptr || params->kind != JsonLine::Kind::kObject)
      refuse("a record needs 'params', an object");
    if (find(RecordKey::kAfter) != nullptr) attempt.after = kept(RecordKey::kAfter);
    return attempt;
  }

  /// Throws an Error with the line's place, which takes long to find.
  template <class... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    throw Error(line_.place() + ": " + fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  /// The text of a key, in quotes and with its escapes.
  std::string_view quoted(RecordKey key) const {
    const JsonLine::Value* value = find(key);
    if (value == nullptr || value->kind != JsonLine::Kind::kText)
      refuse("a record needs '{}', a text", kKeyNames[static_cast<std::size_t>(key)]);
    return value->text;
  }

  /// A copy without quotes and escapes.
  static std::string_view keep(std::string_view quoted, std::pmr::memory_resource& texts) {
    const bool is_escaped = quoted.find('\\') != quoted.npos;
    const std::string unescaped = is_escaped ? JsonLine::text_of(quoted) : "";
    const std::string_view text = is_escaped ? unescaped : quoted.substr(1, quoted.size() - 2);
    char* copy = static_cast<char*>(texts.allocate(text.size(), 1));
    std::ranges::copy(text, copy);
    return {copy, text.size()};
  }

  const RecordLine& line_;
  std::array<const JsonLine::Value*, kKeyNames.size()> found_ = {};
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
  std::pmr::monotonic_buffer_resource nodes;
  std::pmr::unordered_set<Key, decltype(hash)> seen(attempts.size(), hash, {}, &nodes);
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

std::string_view time_of(const IndexedRecord& attempt) { return std::get<0>(time_order(attempt)); }

bool is_later(const IndexedRecord& a, const IndexedRecord& b) {
  return time_order(a) > time_order(b);
}

std::string RecordLine::place() const {
  return fmt::format("{}:{}", reader.path(), reader.number());
}

void for_each_line(const std::string& path, const std::function<void(const RecordLine&)>& visit,
                   const FilePiece& piece) {
  LineReader lines(path, piece);
  JsonLine json;
  while (lines.next()) {
    const std::string_view text = lines.line();
    std::string dumped;
    const bool is_plain = json.read(text) && json.is_plain();
    RecordLine line{json, text, true, lines};
    const auto refuse = [&](const std::string& why) { throw Error(line.place() + ": " + why); };
    if (!is_plain) {
      if (json_depth(text) > kDeepestJson)
        refuse(fmt::format("a record nests at most {} levels", kDeepestJson));
      Json tree = Json::parse(text, nullptr, false);
      if (!tree.is_object() && !lines.has_end()) return;  // torn: its end was never written
      if (!tree.is_object()) refuse("not a record: a line holds one JSON object");
      escape_texts(tree);
      dumped = tree.dump();
      if (!json.read(dumped, true)) refuse("not a record: a text that cannot be written again");
      line.as_dumped = text == dumped;
    }
    visit(line);
  }
}

namespace {

/// A piece of a list, and where it comes from.
struct Piece {
  std::uint32_t file = 0;  // place in RecordIndex::files
  FilePiece bytes = {};
  VisitAttempt visit = {};
  std::vector<IndexedRecord> points = {};
  std::vector<Json> environments = {};
  std::map<std::string, std::uint32_t> machines = {};  // env_ids of the points, by their numbers
  std::unique_ptr<std::pmr::monotonic_buffer_resource> texts =
      std::make_unique<std::pmr::monotonic_buffer_resource>();
  std::exception_ptr failure = {};
};

std::vector<Piece> pieces_of(const std::vector<std::string>& files) {
  std::vector<Piece> pieces;
  for (std::uint32_t file = 0; file < files.size(); ++file) {
    const std::uint64_t size = OpenFile(files[file]).size();
    for (std::uint64_t begin = 0; begin == 0 || begin < size; begin += kPiece)
      pieces.push_back({.file = file, .bytes = {begin, begin + kPiece}});
    pieces.back().bytes.end = FilePiece().end;
  }
  return pieces;
}

void read(const std::string& file, Piece& piece) {
  for_each_line(
      file,
      [&](const RecordLine& line) {
        const RecordKeys keys(line);
        keys.check_schema();
        const std::string type = keys.text(RecordKey::kType);
        if (type == "env") {
          keys.text(RecordKey::kEnvId);
          piece.environments.push_back(Json::parse(line.json.line()));
          return;
        }
        if (type != "point")
          keys.refuse("a record of unknown type {}", keys.find(RecordKey::kType)->text);
        IndexedRecord& attempt = piece.points.emplace_back(keys.attempt(*piece.texts));
        const auto number = static_cast<std::uint32_t>(piece.machines.size());
        attempt.machine =
            piece.machines.try_emplace(JsonLine::text_of(keys.find(RecordKey::kEnvId)), number)
                .first->second;
        attempt.file = piece.file;
        attempt.checksum = checksum_of(line.text);
        attempt.offset = line.reader.offset();
        attempt.size = line.text.size();
        attempt.as_dumped = line.as_dumped;
        if (piece.visit) piece.visit(line.json);
      },
      piece.bytes);
}

/// Puts attempts in the order of time. Those of a file are in order as a rule: parts that are
/// become one, two and two.
void sort_by_time(std::vector<IndexedRecord>& attempts) {
  const auto is_before = [](const IndexedRecord* a, const IndexedRecord* b) {
    if (a->after.empty() && b->after.empty()) return a->finished_at < b->finished_at;
    return time_order(*a) < time_order(*b);
  };
  std::vector<const IndexedRecord*> order, merged(attempts.size());
  order.reserve(attempts.size());
  std::vector<std::size_t> starts{0};  // of the parts, and the end
  for (const IndexedRecord& attempt : attempts) {
    if (!order.empty() && is_before(&attempt, order.back())) starts.push_back(order.size());
    order.push_back(&attempt);
  }
  if (starts.size() == 1) return;
  starts.push_back(order.size());
  while (starts.size() > 2) {
    std::vector<std::size_t> fewer{0};
    for (std::size_t s = 0; s + 1 < starts.size(); s += 2) {
      const auto at = [&](std::size_t part) {
        return order.begin() +
               static_cast<std::ptrdiff_t>(starts[std::min(part, starts.size() - 1)]);
      };
      std::merge(at(s), at(s + 1), at(s + 1), at(s + 2),
                 merged.begin() + static_cast<std::ptrdiff_t>(starts[s]), is_before);
      fewer.push_back(starts[std::min(s + 2, starts.size() - 1)]);
    }
    order.swap(merged);
    starts = std::move(fewer);
  }
  std::vector<IndexedRecord> sorted;
  sorted.reserve(attempts.size());
  for (const IndexedRecord* attempt : order) sorted.push_back(*attempt);
  attempts = std::move(sorted);
}

/// Adds what a piece has behind that of the pieces before it.
void append(Piece& piece, std::map<std::string, std::uint32_t>& machines, RecordIndex& list) {
  for (Json& environment : piece.environments) {
    const std::string id = environment.at("env_id");
    list.environments[id] = std::move(environment);
  }
  std::vector<std::uint32_t> machine_of(piece.machines.size());
  for (const auto& [env_id, number] : piece.machines) {
    const auto [machine, is_new] = machines.try_emplace(env_id, list.machines.size());
    if (is_new) list.machines.push_back(env_id);
    machine_of[number] = machine->second;
  }
  for (IndexedRecord& attempt : piece.points) {
    attempt.machine = machine_of[attempt.machine];
    attempt.number = list.points.size();
    list.points.push_back(attempt);
  }
  list.texts.push_back(std::move(piece.texts));
  piece = {};
}

}  // namespace

RecordIndex read_index(const std::string& folder_or_file, bool each_machine,
                       const std::function<VisitAttempt()>& visitor_of_piece) {
  RecordIndex list{.files = record_files(folder_or_file)};
  std::vector<Piece> pieces = pieces_of(list.files);
  if (visitor_of_piece)
    for (Piece& piece : pieces) piece.visit = visitor_of_piece();
  parallel_for(std::ssize(pieces), 1, [&](std::int64_t i, std::int64_t) {
    try {
      read(list.files[pieces[i].file], pieces[i]);
    } catch (...) {
      pieces[i].failure = std::current_exception();
    }
  });
  std::size_t attempts = 0;
  for (const Piece& piece : pieces) {
    if (piece.failure) std::rethrow_exception(piece.failure);
    attempts += piece.points.size();
  }
  list.points.reserve(attempts);
  std::map<std::string, std::uint32_t> machines;
  for (Piece& piece : pieces) append(piece, machines, list);
  if (list.files.size() > 1) sort_by_time(list.points);
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
