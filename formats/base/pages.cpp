#include "formats/base/pages.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <map>
#include <mutex>

namespace tessera {
namespace {

struct Mappings {
  std::mutex mutex;
  std::map<const std::byte*, const std::byte*> end_of;  // by the first byte

  /// True when the bytes are all of one mapping.
  bool hold(std::span<const std::byte> bytes) {
    const std::lock_guard lock(mutex);
    auto after = end_of.upper_bound(bytes.data());
    return after != end_of.begin() && bytes.data() + bytes.size() <= (--after)->second;
  }
};

Mappings& mappings() {
  static Mappings all;
  return all;
}

}  // namespace

PagesOfFile::PagesOfFile(std::span<const std::byte> mapping) : begin_(mapping.data()) {
  const std::lock_guard lock(mappings().mutex);
  mappings().end_of[begin_] = begin_ + mapping.size();
}

PagesOfFile::~PagesOfFile() {
  const std::lock_guard lock(mappings().mutex);
  mappings().end_of.erase(begin_);
}

void give_back_pages(std::span<const std::byte> bytes) {
  if (!mappings().hold(bytes)) return;
  static const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto first = reinterpret_cast<std::uintptr_t>(bytes.data());
  // A mapping begins with a page.
  const std::uintptr_t begin = first / page * page, end = (first + bytes.size()) / page * page;
  // A failure costs memory and changes nothing else.
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace tessera
