#include "experiments/verbs/fetch_matrices.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>

#include "experiments/config/matrix_catalogue.hpp"
#include "experiments/machine/terminal.hpp"
#include "experiments/run/progress.hpp"
#include "experiments/verbs/verb.hpp"
#include "formats/base/amounts.hpp"
#include "formats/base/check.hpp"
#include "formats/base/suggest.hpp"
#include "formats/io/fetch.hpp"
#include "formats/io/source.hpp"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

/// One matrix of a request.
struct Item {
  std::string name;        // as the user or the set says it
  std::string collection;  // group/name; "" when there is nothing to download
  std::string state;       // why there is nothing, or what is known of the download
  FetchState file = {};    // of a download
  std::int64_t bytes = 0;  // of the whole file; 0: the server does not tell
  bool absent = false;     // neither here nor to be fetched

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
  options.sha256 = request.sha256;
  if (!request.mirror.empty()) options.suitesparse_url = options.snap_url = request.mirror;
  return options;
}

/// The item of a name, found without a server. Throws an Error for one that nobody knows, unless a
/// set has it.
Item item_of(const std::string& name, bool of_set, const MatrixCatalogue& catalogue) {
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

/// Adds what is here of the file and its size. A server that does not answer makes the size
/// unknown.
void look_at(Item& item, const FetchOptions& options) {
  item.file = fetch_state(item.collection, options);
  if (item.file.whole) {
    item.bytes = item.file.bytes;
    item.state = "here: " + item.file.path;
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

std::vector<Item> items_of(const FetchRequest& request, const FetchOptions& options) {
  const MatrixCatalogue catalogue = matrix_catalogue();
  std::vector<Item> items;
  for (const std::string& given : request.names)
    for (const std::string& name : matrices_of(given)) {
      const bool known =
          std::ranges::any_of(items, [&](const Item& item) { return item.name == name; });
      if (!known) items.push_back(item_of(name, given.starts_with('@'), catalogue));
    }
  for (Item& item : items)
    if (!item.collection.empty()) look_at(item, options);
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
