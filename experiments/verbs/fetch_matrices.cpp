#include "experiments/verbs/fetch_matrices.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <set>

#include "experiments/config/collection_query.hpp"
#include "experiments/config/matrix_catalogue.hpp"
#include "experiments/machine/terminal.hpp"
#include "experiments/run/progress.hpp"
#include "experiments/verbs/verb.hpp"
#include "formats/base/amounts.hpp"
#include "formats/base/check.hpp"
#include "formats/base/suggest.hpp"
#include "formats/io/collection_index.hpp"
#include "formats/io/fetch.hpp"
#include "formats/io/source.hpp"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kMostSizesAsked = 100;  // a request to the server each

/// One matrix of a request.
struct Item {
  std::string name;         // as the user or the set says it
  std::string collection;   // group/name; "" when there is nothing to download
  std::string state;        // why there is nothing, or what is known of the download
  std::string sha256 = {};  // that the download has to have; "" when none is known
  FetchState file = {};     // of a download
  std::int64_t bytes = 0;   // of the whole file; 0: the server does not tell, or is not asked
  bool absent = false;      // neither here nor to be fetched

  std::int64_t bytes_left() const { return std::max<std::int64_t>(0, bytes - file.partial_bytes); }
};

/// Progress on stderr: bytes, speed and time left. A terminal shows one line that renews itself, a
/// log has a line every ten seconds.
class DownloadMeter {
 public:
  explicit DownloadMeter(std::string name)
      : name_(std::move(name)), terminal_(isatty(STDERR_FILENO) != 0) {}
  ~DownloadMeter() {
    if (terminal_ && shown_) fmt::print(stderr, "\r\033[K");
  }
  DownloadMeter(const DownloadMeter&) = delete;
  DownloadMeter& operator=(const DownloadMeter&) = delete;

  void show(std::int64_t done, std::int64_t total) {
    const auto now = Clock::now();
    if (!began_) {
      began_ = drawn_ = now;
      first_ = done;
      if (!terminal_) return;
    }
    if (shown_ && now - drawn_ < pause()) return;
    if (!terminal_ && now - drawn_ < pause()) return;
    drawn_ = now;
    shown_ = true;
    const double seconds = std::chrono::duration<double>(now - *began_).count();
    const double rate = seconds > 0 ? static_cast<double>(done - first_) / seconds : 0;
    std::string text = fmt::format("{}: {}", name_, bytes_text(static_cast<double>(done)));
    if (total > 0) text += " of " + bytes_text(static_cast<double>(total));
    if (rate > 0) text += fmt::format(", {}/s", bytes_text(rate));
    if (rate > 0 && total > done)
      text += ", " + duration_text(static_cast<double>(total - done) / rate) + " left";
    fmt::print(stderr, "{}{}{}", terminal_ ? "\r\033[K" : "", text, terminal_ ? "" : "\n");
    std::fflush(stderr);
  }

 private:
  Clock::duration pause() const {
    return terminal_ ? std::chrono::milliseconds(100) : std::chrono::seconds(10);
  }

  const std::string name_;
  const bool terminal_;
  bool shown_ = false;
  std::optional<Clock::time_point> began_;
  Clock::time_point drawn_;
  std::int64_t first_ = 0;  // bytes that were there at the beginning
};

FetchOptions options_of(const FetchRequest& request) {
  FetchOptions options;
  if (request.mirror.empty()) return options;
  options.suitesparse_url = options.snap_url = request.mirror;
  options.index_url = request.mirror + "/files/ssstats.csv";
  return options;
}

/// The index of the SuiteSparse Matrix Collection, fetched when something needs it.
class Index {
 public:
  explicit Index(const FetchOptions& options) : options_(options) {}

  /// Throws an Error when there is none and it cannot be fetched.
  void fetch() {
    const FetchedFile file = fetch_collection_index(options_);
    fmt::print(stderr, "{}: the index of the SuiteSparse Matrix Collection, {} bytes, SHA-256 {}\n",
               file.path, file.bytes, file.sha256);
    index_ = collection_index();
  }

  /// The matrices of that name, one in each group that has it. An index that cannot be fetched has
  /// none; `missing` then says why.
  std::vector<CollectionMatrix> named(const std::string& name, bool fetch_it,
                                      std::string& missing) {
    if (!index_) index_ = collection_index();
    if (!index_ && fetch_it && failure_.empty()) try {
        fetch();
      } catch (const Error& error) {
        failure_ = error.what();
      }
    missing = failure_;
    std::vector<CollectionMatrix> found;
    if (index_)
      std::ranges::copy_if(index_->matrices, std::back_inserter(found),
                           [&](const CollectionMatrix& matrix) { return matrix.name == name; });
    return found;
  }

 private:
  const FetchOptions& options_;
  std::optional<CollectionIndex> index_;
  std::string failure_;
};

/// Looks a name up in the index. False when it has no matrix of that name.
bool find_in_index(Item& item, bool of_set, Index& index) {
  std::string missing;
  const std::vector<CollectionMatrix> found = index.named(item.name, of_set, missing);
  if (found.size() == 1) {
    item.collection = found[0].full_name();
    return true;
  }
  if (found.empty() && missing.empty()) return false;
  item.absent = true;
  item.state = "not to be fetched: its group is in the collection's index, " + missing;
  if (missing.empty()) {
    item.state = "not to be fetched by this name, which several groups have:";
    for (const CollectionMatrix& matrix : found) item.state += " " + matrix.full_name();
  }
  return true;
}

/// The item of a name. Asks no server but for the index, and that only for the name of a set that
/// nothing else knows. Throws an Error for a name that nobody knows, unless a set has it.
Item item_of(const std::string& name, bool of_set, const MatrixCatalogue& catalogue, Index& index) {
  Item item{.name = name, .collection = {}, .state = {}};
  if (name.find('/') != name.npos) {
    item.collection = name;
    return item;
  }
  try {
    const MatrixSource here = find_matrix(name);
    item.state = here.synthetic() ? "made by a formula" : "here: " + here.path;
    return item;
  } catch (const Unsupported&) {
    // It is not here.
  }
  if (const auto found = catalogue.fetch.find(name); found != catalogue.fetch.end()) {
    item.collection = found->second;
    return item;
  }
  const auto found = catalogue.elsewhere.find(name);
  if (found == catalogue.elsewhere.end() && find_in_index(item, of_set, index)) return item;
  if (found == catalogue.elsewhere.end() && !of_set) {
    std::vector<std::string> known;
    for (const auto* table : {&catalogue.fetch, &catalogue.elsewhere})
      for (const auto& [matrix, place] : *table) known.push_back(matrix);
    const std::string near = nearest_name(name, known);
    throw Error(fmt::format(
        "'{}' is no matrix of the shipped sets{}; others are fetched by their collection's name, "
        "like HB/bcsstk17 (SuiteSparse) or snap/ca-GrQc (SNAP)",
        name, near.empty() ? "" : fmt::format(", did you mean '{}'", near)));
  }
  item.absent = true;
  item.state = fmt::format("not to be fetched: {}", found == catalogue.elsewhere.end()
                                                        ? "no collection is known that has it"
                                                        : found->second);
  return item;
}

/// Adds what is here of the file and, with `ask`, its size. A server that does not answer makes the
/// size unknown.
void look_at(Item& item, const FetchOptions& options, bool ask) {
  item.file = fetch_state(item.collection, options);
  if (item.file.whole) {
    item.bytes = item.file.bytes;
    item.state = "here: " + item.file.path;
    return;
  }
  if (!ask) {
    item.state = "size not asked";
    return;
  }
  try {
    item.bytes = remote_size(item.file.url, options.download);
    item.state = item.bytes > 0 ? bytes_text(static_cast<double>(item.bytes)) : "size unknown";
    if (item.file.partial_bytes > 0)
      item.state +=
          fmt::format(", {} of it here", bytes_text(static_cast<double>(item.file.partial_bytes)));
  } catch (const Error& error) {
    item.state = fmt::format("size unknown: {}", error.what());
  }
}

/// The matrices of a name or of a set; the index is fetched for a set that is a query over it.
std::vector<std::string> names_of(const std::string& given, Index& index) {
  std::vector<CountedSet> counted;
  std::vector<std::string> names;
  try {
    names = matrices_of(given, counted);
  } catch (const CollectionIndexAbsent& absent) {
    try {
      index.fetch();
    } catch (const Error& error) {
      throw Error(fmt::format("{}; now: {}", absent.what(), error.what()));
    }
    names = matrices_of(given, counted);
  }
  for (const CountedSet& set : counted) fmt::print(stderr, "@{}: {}\n", set.name, set.found);
  return names;
}

std::vector<Item> items_of(const FetchRequest& request, const FetchOptions& options) {
  const MatrixCatalogue catalogue = matrix_catalogue();
  Index index(options);
  std::vector<Item> items;
  std::set<std::string> known;
  for (const std::string& given : request.names)
    for (const std::string& name : names_of(given, index))
      if (known.insert(name).second)
        items.push_back(item_of(name, given.starts_with('@'), catalogue, index));
  const auto downloads =
      std::ranges::count_if(items, [](const Item& item) { return !item.collection.empty(); });
  for (Item& item : items) {
    const auto known_sum = catalogue.sha256.find(item.collection);
    item.sha256 = known_sum == catalogue.sha256.end() ? "" : known_sum->second;
    if (!request.sha256.empty()) item.sha256 = request.sha256;
    if (!item.collection.empty()) look_at(item, options, downloads <= kMostSizesAsked);
  }
  return items;
}

void tell_items(const std::vector<Item>& items, std::FILE* stream) {
  std::size_t width = 0;
  std::int64_t downloads = 0, bytes = 0, absent = 0, unknown = 0;
  for (const Item& item : items) {
    width = std::max(width, item.name.size());
    absent += item.absent ? 1 : 0;
    if (item.collection.empty() || item.file.whole) continue;
    ++downloads;
    unknown += item.bytes == 0 ? 1 : 0;
    bytes += item.bytes_left();
  }
  for (const Item& item : items)
    fmt::print(
        stream, "{:{}}  {}{}\n", item.name, width,
        item.collection.empty() || item.collection == item.name ? "" : item.collection + ", ",
        item.absent ? toned(Tone::kWarning, item.state, stream) : item.state);
  fmt::print(stream, "to download: {}", counted(downloads, "matrix", "matrices"));
  if (bytes > 0) fmt::print(stream, ", {}", bytes_text(static_cast<double>(bytes)));
  if (unknown > 0) fmt::print(stream, " ({} of unknown size)", unknown);
  if (absent > 0) fmt::print(stream, "; {} not to be fetched by name", absent);
  fmt::print(stream, "\n");
}

}  // namespace

int fetch_matrices(const FetchRequest& request) {
  const FetchOptions options = options_of(request);
  const std::vector<Item> items = items_of(request, options);
  require(request.sha256.empty() || items.size() == 1, "--sha256 is of one file; {} are named",
          counted(std::ssize(items), "matrix", "matrices"));
  tell_items(items, request.dry_run ? stdout : stderr);
  if (request.dry_run) return kOk;

  std::vector<std::string> failures;
  for (const Item& item : items) {
    if (item.collection.empty()) continue;
    try {
      FetchOptions shown = options;
      shown.sha256 = item.sha256;
      DownloadMeter meter(item.name);
      shown.download.progress = [&](std::int64_t done, std::int64_t total) {
        meter.show(done, total);
      };
      const FetchedFile file = fetch_matrix(item.collection, shown);
      fmt::print("{}  {} bytes, SHA-256 {}{}\n", file.path, file.bytes, file.sha256,
                 file.downloaded ? "" : " (was there)");
      std::fflush(stdout);
    } catch (const Error& error) {
      failures.emplace_back(error.what());
    }
  }
  for (const std::string& failure : failures) say_error(failure);
  return failures.empty() ? kOk : kFailed;
}

}  // namespace tessera
