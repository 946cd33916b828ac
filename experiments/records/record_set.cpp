#include "experiments/records/record_set.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <tuple>
#include <utility>

#include "experiments/records/record_index.hpp"
#include "formats/base/check.hpp"

namespace tessera {
namespace {

constexpr std::uint64_t kPiece = 1 << 16;  // bytes of a file's end that are read at a time

/// Orders attempts in time: an attempt follows what it replaces, whatever the clocks said.
std::tuple<std::string, bool, std::string> time_order(const Json& record) {
  const std::string finished = record["finished_at"], after = record.value("after", "");
  return {std::max(finished, after), after >= finished, finished};
}

}  // namespace

std::string time_of(const Json& record) { return std::get<0>(time_order(record)); }

bool is_later(const Json& a, const Json& b) { return time_order(a) > time_order(b); }

std::vector<Json> read_json_lines(const std::string& path) {
  std::vector<Json> lines;
  for_each_line(path,
                [&](const RecordLine& line) { lines.push_back(Json::parse(line.json.line())); });
  return lines;
}

RecordSet read_records(const std::string& folder_or_file, bool each_machine) {
  RecordIndex list = read_index(folder_or_file, each_machine);
  IndexedLines lines(list);
  RecordSet set;
  set.points.reserve(list.points.size());
  for (const IndexedRecord& attempt : list.points)
    set.points.push_back(Json::parse(lines.line(attempt)));
  set.environments = std::move(list.environments);
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
  const OpenFile file(path_);
  std::uint64_t whole = std::filesystem::file_size(path_);
  std::string last;  // behind the last newline
  for (std::size_t newline = std::string::npos; newline == std::string::npos && whole > 0;) {
    std::string piece(std::min<std::uint64_t>(whole, kPiece), ' ');
    piece.resize(file.read(piece.data(), piece.size(), whole - piece.size()));
    newline = piece.rfind('\n');
    const std::size_t cut = newline == std::string::npos ? 0 : newline + 1;
    whole -= piece.size() - cut;
    last.insert(0, piece, cut);
  }
  const bool is_record = Json::parse(last, nullptr, false).is_object();
  if (is_record) whole += last.size();
  const auto size = static_cast<off_t>(whole);
  const bool cut = ftruncate(file_, size) == 0 && lseek(file_, size, SEEK_SET) >= 0;
  require(cut && (!is_record || write(file_, "\n", 1) == 1), "{}: cannot be extended: {}", path_,
          std::strerror(errno));
}

RecordWriter::~RecordWriter() { close(file_); }

void RecordWriter::append(const Json& record) {
  add(record);
  sync();
}

void RecordWriter::add(const Json& record) {
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
  unsynced_ = true;
}

void RecordWriter::sync() {
  if (unsynced_) fdatasync(file_);
  unsynced_ = false;
}

}  // namespace tessera
