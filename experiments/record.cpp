#include "experiments/record.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "formats/base/check.hpp"

namespace tessera {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  require(file.good(), "{}: cannot be read", path);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

std::vector<Json> read_json_lines(const std::string& path) {
  const std::string text = read_file(path);
  std::vector<Json> lines;
  std::size_t begin = 0;
  for (int number = 1; begin < text.size(); ++number) {
    const std::size_t end = text.find('\n', begin);
    if (end == std::string::npos) break;  // torn: its newline was never written
    const Json line = Json::parse(text.begin() + static_cast<std::ptrdiff_t>(begin),
                                  text.begin() + static_cast<std::ptrdiff_t>(end), nullptr, false);
    require(line.is_object(), "{}:{}: not a record: a line holds one JSON object", path, number);
    lines.push_back(line);
    begin = end + 1;
  }
  return lines;
}

RecordSet read_records(const std::string& folder_or_file) {
  namespace fs = std::filesystem;
  std::vector<std::string> files;
  if (fs::is_directory(folder_or_file)) {
    for (const auto& entry : fs::directory_iterator(folder_or_file))
      if (entry.path().extension() == ".jsonl") files.push_back(entry.path().string());
    std::ranges::sort(files);
  } else {
    require(fs::exists(folder_or_file), "{}: there is no such record file or folder",
            folder_or_file);
    files.push_back(folder_or_file);
  }

  RecordSet set;
  std::map<std::string, std::size_t> place;
  for (const std::string& file : files) {
    for (Json& line : read_json_lines(file)) {
      const std::string type = line.value("type", "");
      if (type == "env") {
        set.environments[line.at("env_id").get<std::string>()] = std::move(line);
        continue;
      }
      require(type == "point", "{}: a record of unknown type '{}'", file, type);
      const auto [found, is_new] =
          place.try_emplace(line.at("point_id").get<std::string>(), set.points.size());
      if (is_new)
        set.points.push_back(std::move(line));
      else
        set.points[found->second] = std::move(line);
    }
  }
  return set;
}

RecordWriter::RecordWriter(const std::string& path) : path_(path) {
  const auto folder = std::filesystem::path(path).parent_path();
  if (!folder.empty()) std::filesystem::create_directories(folder);
  file_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  require(file_ >= 0, "{}: cannot be opened for writing: {}", path, std::strerror(errno));
  if (flock(file_, LOCK_EX | LOCK_NB) != 0) {
    close(file_);
    throw Error(fmt::format("{}: another run is writing to it", path));
  }
  const std::string text = read_file(path);
  const std::size_t last = text.rfind('\n');
  const auto whole = static_cast<off_t>(last == std::string::npos ? 0 : last + 1);
  if (ftruncate(file_, whole) != 0 || lseek(file_, whole, SEEK_SET) < 0) {
    close(file_);
    throw Error(fmt::format("{}: cannot be extended: {}", path, std::strerror(errno)));
  }
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
