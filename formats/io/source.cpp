// The meanings of a name in the order of trial: an existing file, a generator call, a file in a
// data folder, a generator with or without a trailing number. A file in a data folder precedes a
// generator of the same name because a user put it there; mycielskian(k=14) is always the
// generator.
#include "formats/io/source.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>

#include <fmt/ranges.h>

#include "formats/base/escaped.hpp"
#include "formats/base/or_out_of_memory.hpp"
#include "formats/base/registry.hpp"
#include "formats/base/row_parts.hpp"
#include "formats/generators/generator.hpp"
#include "formats/io/cache.hpp"
#include "formats/io/call_syntax.hpp"
#include "formats/io/matrix_file.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxNesting = 16;
constexpr std::string_view kMatrixParameter = "of";
constexpr std::string_view kOr = " or ";
constexpr std::string_view kReaders = "readers 1";  // raise when reading a file changes its matrix

struct Lookup {
  int depth = 0;               // nesting of the matrix name in others
  bool may_be_absent = false;  // an unknown name is kept, not an error
};
MatrixSource find(std::string_view spec, Lookup lookup);

std::vector<std::string> known_suffixes() {
  std::vector<std::string> suffixes;
  const auto& registry = Registry<MatrixFile>::instance();
  for (const std::string& name : registry.names())
    for (std::string& suffix : registry.make(name)->suffixes())
      suffixes.push_back(std::move(suffix));
  return suffixes;
}

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

/// Throws an Error when there is something at the path that is no file and cannot be read as one.
void require_no_other(const fs::path& path) {
  std::error_code failed, ignored;
  const fs::file_status status = fs::status(path, failed);
  std::string_view kind;
  if (failed == std::errc::too_many_symbolic_link_levels) kind = "a loop of symbolic links";
  if (status.type() == fs::file_type::not_found && fs::is_symlink(path, ignored))
    kind = "a symbolic link to nothing";
  if (status.type() == fs::file_type::directory) kind = "a folder";
  if (status.type() == fs::file_type::fifo) kind = "a FIFO";
  if (status.type() == fs::file_type::socket) kind = "a socket";
  if (fs::is_block_file(status) || fs::is_character_file(status)) kind = "a device";
  require(kind.empty(), "{}: it is {}; expected a file", path.string(), kind);
  require(failed != std::errc::permission_denied, "{}: cannot read: {}", path.string(),
          failed.message());
}

/// The file name without the longest known ending that fits.
std::string stem_of(const fs::path& path) {
  const std::string name = path.filename().string();
  std::size_t cut = 0;
  for (const std::string& suffix : known_suffixes()) {
    const auto same = [](char a, char b) {
      return std::tolower(static_cast<unsigned char>(a)) == b;
    };
    if (suffix.size() < name.size() &&
        std::equal(name.end() - suffix.size(), name.end(), suffix.begin(), suffix.end(), same))
      cut = std::max(cut, suffix.size());
  }
  return name.substr(0, name.size() - cut);
}

/// Refuses a name that cannot be printed or recorded.
void require_printable(std::string_view name) {
  require(escaped(name) == name,
          "'{}': the name of a matrix holds no control characters and no bytes that are not UTF-8; "
          "rename the file",
          escaped(name));
}

MatrixSource file_source(const fs::path& path) {
  MatrixSource source;
  source.path = fs::canonical(path).string();
  require_printable(source.path);
  source.canonical = source.reference = source.path;
  source.name = stem_of(path);
  return source;
}

// --- files in data folders -----------------------------------------------------------------------

std::vector<fs::path> data_folders() {
  std::vector<fs::path> folders;
  if (const char* list = std::getenv("TESSERA_DATA")) {
    std::string_view rest = list;
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find(':'), rest.size());
      if (end > 0) folders.emplace_back(rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
  if (const std::string cache = cache_folder(); !cache.empty())
    folders.push_back(fs::path(cache) / "downloads");
  return folders;
}

/// The folders in the downloads of the cache, one for each group: a fetched HB/bcsstk17 is also
/// found as bcsstk17.
std::vector<fs::path> fetched_groups() {
  std::vector<fs::path> groups;
  if (cache_folder().empty()) return groups;
  std::error_code ignored;
  for (const auto& group : fs::directory_iterator(fs::path(cache_folder()) / "downloads", ignored))
    if (group.is_directory(ignored)) groups.push_back(group.path());
  std::ranges::sort(groups);
  return groups;
}

std::vector<fs::path> folders_with_matrices() {
  std::vector<fs::path> folders = data_folders();
  for (fs::path& group : fetched_groups()) folders.push_back(std::move(group));
  return folders;
}

/// The file of that name in the first data folder that has one; "" when none has.
fs::path file_in_data_folders(std::string_view spec) {
  std::vector<std::string> endings = known_suffixes();
  if (is_matrix_file_name(spec)) endings.insert(endings.begin(), "");
  for (const fs::path& folder : folders_with_matrices()) {
    std::vector<std::string> found;
    for (const std::string& ending : endings) {
      const fs::path candidate = folder / (std::string(spec) + ending);
      if (is_file(candidate)) found.push_back(candidate.string());
    }
    require(found.size() < 2, "'{}' could be any of {}: give the name with its ending", spec,
            fmt::join(found, ", "));
    if (!found.empty()) return found.front();
  }
  return {};
}

// --- generators ----------------------------------------------------------------------------------

/// The named generator with all its parameters; the matrix that it is made of is resolved.
MatrixSource generator_source(Call call, Lookup lookup) {
  const auto& registry = Registry<Generator>::instance();
  const Entry<Generator>& entry = registry.find(call.name);
  MatrixSource source;
  source.generator = call.name;
  const auto is_matrix = [](const ParamSpec& spec) {
    return spec.name == kMatrixParameter && std::holds_alternative<std::string>(spec.fallback);
  };
  MatrixSource inner;
  if (std::ranges::any_of(entry.params, is_matrix)) {
    const Params given = registry.resolve(call.name, call.given);
    require(!given.text(kMatrixParameter).empty(), "generator {}: '{}' must name a matrix",
            call.name, kMatrixParameter);
    inner = find(given.text(kMatrixParameter), {lookup.depth + 1, lookup.may_be_absent});
    call.given[std::string(kMatrixParameter)] = inner.canonical;
  }
  source.params = registry.resolve(call.name, call.given);

  std::vector<std::string> complete, referring, told;
  for (const ParamSpec& spec : entry.params) {
    const std::string value = to_text(source.params.values().at(spec.name));
    const auto quoted = [&](const std::string& text) {
      const bool is_call = is_matrix(spec) && text.ends_with(')');
      return fmt::format("{}={}", spec.name, is_call ? text : quote_value(text));
    };
    complete.push_back(quoted(value));
    referring.push_back(quoted(is_matrix(spec) ? inner.reference : value));
    if (is_matrix(spec))
      told.push_back(fmt::format("{}={}", spec.name, inner.name));
    else if (call.given.contains(spec.name))
      told.push_back(fmt::format("{}={}", spec.name, value));
  }
  source.canonical = fmt::format("{}({})", call.name, fmt::join(complete, ", "));
  source.reference = fmt::format("{}({})", call.name, fmt::join(referring, ", "));
  source.name = told.empty() ? call.name : fmt::format("{}({})", call.name, fmt::join(told, ", "));
  return source;
}

/// The call that "Trefethen_2000" stands for: the longest generator name in front of a number,
/// which is its first parameter. Empty when the word is not of that form.
Call trailing_number_call(std::string_view spec) {
  Call call;
  for (const auto& [name, entry] : Registry<Generator>::instance().entries()) {
    if (!spec.starts_with(name) || name.size() <= call.name.size() || entry.params.empty())
      continue;
    std::string_view number = spec.substr(name.size());
    if (number.starts_with('_')) number.remove_prefix(1);
    if (number.empty() || number.find_first_not_of("0123456789") != number.npos) continue;
    call.name = name;
    call.given = {{entry.params.front().name, std::string(number)}};
  }
  return call;
}

// --- nothing found -------------------------------------------------------------------------------

[[noreturn]] void not_found(std::string_view spec) {
  require(!is_file(spec), "{} is a file that is not read as a matrix: its name ends in none of {}",
          spec, fmt::join(known_suffixes(), " "));
  const bool is_path = is_matrix_file_name(spec) || spec.find('/') != spec.npos;
  std::vector<std::string> places;
  if (is_path) places.push_back(fs::absolute(spec).string());
  for (const fs::path& folder : data_folders()) places.push_back(folder.string());
  const std::string_view word = spec.substr(0, spec.find_last_not_of("_0123456789") + 1);
  std::string near = nearest_name(spec, known_matrix_names());
  if (near.empty()) near = nearest_name(word, Registry<Generator>::instance().names());
  const bool published = std::ranges::count(spec, '/') == 1 && !is_matrix_file_name(spec) &&
                         spec.front() != '.' && spec.front() != '/' && spec.back() != '/';
  if (is_path && !published) require_no_other(spec);
  for (const fs::path& folder : folders_with_matrices()) {
    if (is_matrix_file_name(spec)) require_no_other(folder / spec);
    for (const std::string& ending : known_suffixes())
      require_no_other(folder / (std::string(spec) + ending));
  }
  throw MatrixAbsent(
      spec, fmt::format(
                "there is no matrix '{}'{}; looked in: {} (endings {}), and among the generators{}",
                spec, near.empty() ? "" : fmt::format(", did you mean '{}'", near),
                fmt::join(places, ", "), fmt::join(known_suffixes(), " "),
                published ? fmt::format("; `tessera matrix fetch {}` downloads one", spec) : ""));
}

/// The source of a name that is neither a path nor a call.
MatrixSource find_bare(std::string_view spec, Lookup lookup) {
  if (const fs::path path = file_in_data_folders(spec); !path.empty()) return file_source(path);
  if (Registry<Generator>::instance().contains(spec))
    return generator_source({std::string(spec), {}}, lookup);
  if (Call call = trailing_number_call(spec); !call.name.empty()) {
    MatrixSource source = generator_source(std::move(call), lookup);
    source.name = spec;
    return source;
  }
  if (!lookup.may_be_absent) not_found(spec);
  MatrixSource absent;
  absent.name = absent.canonical = spec;
  return absent;
}

/// The length of the first alternative, which ends before an " or " outside brackets.
std::size_t first_alternative(std::string_view spec) {
  int depth = 0;
  for (std::size_t i = 0; i < spec.size(); ++i) {
    depth += (spec[i] == '(' ? 1 : 0) - (spec[i] == ')' ? 1 : 0);
    if (depth == 0 && spec.substr(i).starts_with(kOr)) return i;
  }
  return spec.size();
}

MatrixSource find(std::string_view spec, Lookup lookup) {
  require(lookup.depth < kMaxNesting, "a matrix name can be nested {} deep, not deeper",
          kMaxNesting);
  const std::size_t first = spec.find_first_not_of(" \t");
  require(first != spec.npos, "a matrix name is empty");
  spec = spec.substr(first, spec.find_last_not_of(" \t") - first + 1);
  require_printable(spec);

  if (const std::size_t end = first_alternative(spec); end != spec.size() && !is_file(spec)) {
    try {
      return find(spec.substr(0, end), {.depth = lookup.depth});
    } catch (const Unsupported&) {  // it is not here
      return find(spec.substr(end + kOr.size()), lookup);
    }
  }
  const std::size_t slash = spec.find('/');
  if (is_file(spec) && (slash != spec.npos || is_matrix_file_name(spec))) {
    require(is_matrix_file_name(spec), "{} ends in none of the known endings: {}", spec,
            fmt::join(known_suffixes(), " "));
    return file_source(spec);
  }
  if (spec.find('(') < slash) return generator_source(parse_call(spec), lookup);
  MatrixSource source = find_bare(spec, lookup);
  source.reference = spec;
  return source;
}

// --- loading -------------------------------------------------------------------------------------

/// A text that changes whenever the content of the source might have changed.
std::string identity_of(const MatrixSource& source) {
  if (!source.synthetic()) {
    // The change time as well: copying an older file over a newer one can keep size and mtime.
    struct stat status;
    require(::stat(source.path.c_str(), &status) == 0, "{} cannot be read", source.path);
    return fmt::format("file {}\n{} bytes, modified {}.{:09}, changed {}.{:09}, {}", source.path,
                       status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec,
                       status.st_ctim.tv_sec, status.st_ctim.tv_nsec, kReaders);
  }
  const auto generator = Registry<Generator>::instance().make(source.generator, source.params);
  std::string identity =
      fmt::format("generator {}\nversion {}", source.canonical, generator->version());
  const auto of = source.params.values().find(kMatrixParameter);
  if (of != source.params.values().end())
    if (const auto* inner = std::get_if<std::string>(&of->second))
      identity += "\nof " + identity_of(find_matrix(*inner));
  return identity;
}

CsrMatrix make(const MatrixSource& source) {
  if (!source.synthetic()) return read_matrix(source.path);
  return Registry<Generator>::instance().make(source.generator, source.params)->generate();
}

LoadedMatrix load_or_make(const MatrixSource& source, bool use_cache) {
  const auto start = std::chrono::steady_clock::now();
  const MatrixCache cache(use_cache ? cache_folder() : "");
  const std::string identity = identity_of(source);
  LoadedMatrix loaded;
  loaded.source = source;
  loaded.content_hash = cache.known_content(identity);
  if (std::optional<CsrMatrix> cached = cache.load(loaded.content_hash)) {
    loaded.matrix = *std::move(cached);
    loaded.from_cache = true;
  } else {
    loaded.matrix = make(source);
    validate(loaded.matrix);
    loaded.content_hash = content_hash(loaded.matrix);
    cache.store(loaded.matrix, loaded.content_hash);
    // The memory of a large one can be given back part by part where a file holds it too.
    if (nonzeros_of_part(loaded.matrix.nnz()) < loaded.matrix.nnz())
      if (std::optional<CsrMatrix> stored = cache.load(loaded.content_hash))
        loaded.matrix = *std::move(stored);
    // A file that changed while it was read may be neither the old nor the new one.
    if (identity_of(source) == identity) cache.remember(identity, loaded.content_hash);
  }
  loaded.load_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return loaded;
}

}  // namespace

MatrixSource find_matrix(std::string_view spec) { return find(spec, {}); }

std::vector<std::string> known_matrix_names() {
  std::vector<std::string> names = Registry<Generator>::instance().names();
  for (const fs::path& folder : folders_with_matrices()) {
    std::error_code ignored;
    for (const auto& file : fs::directory_iterator(folder, ignored))
      if (is_matrix_file_name(file.path().string())) names.push_back(escaped(stem_of(file.path())));
  }
  std::ranges::sort(names);
  names.erase(std::ranges::unique(names).begin(), names.end());
  return names;
}

std::string matrix_reference(std::string_view spec) {
  return find(spec, {.may_be_absent = true}).reference;
}

LoadedMatrix load_matrix(const MatrixSource& source, bool use_cache) {
  return or_out_of_memory([&] { return load_or_make(source, use_cache); },
                          [&] {
                            return fmt::format(
                                "{}: this machine has too little memory for the matrix",
                                source.canonical);
                          });
}

LoadedMatrix load_matrix(std::string_view spec, bool use_cache) {
  return load_matrix(find_matrix(spec), use_cache);
}

std::string known_content_hash(const MatrixSource& source) {
  return MatrixCache().known_content(identity_of(source));
}

}  // namespace tessera
