// Pages of a file's mapping leave the process and come back; other memory stays as it is.
#include "formats/base/pages.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <vector>

#include "tests/support.hpp"

namespace tessera {
namespace {

using Bytes = std::span<const std::byte>;

std::vector<std::byte> numbered(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 % 251);
  return bytes;
}

/// A file of 64 pages with these bytes, mapped.
class MappedFile {
 public:
  explicit MappedFile(const std::vector<std::byte>& bytes) : size_(bytes.size()) {
    std::FILE* const file = std::tmpfile();
    REQUIRE(file != nullptr);
    REQUIRE(std::fwrite(bytes.data(), 1, size_, file) == size_);
    REQUIRE(std::fflush(file) == 0);
    start_ = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED | MAP_POPULATE, ::fileno(file), 0);
    std::fclose(file);
    REQUIRE(start_ != MAP_FAILED);
  }
  ~MappedFile() { ::munmap(start_, size_); }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  Bytes bytes() const { return {static_cast<const std::byte*>(start_), size_}; }

 private:
  std::size_t size_;
  void* start_;
};

const auto kPage = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));

/// The pages of the range that are in the process, of /proc/self/pagemap.
std::size_t pages_present(Bytes bytes) {
  const int map = ::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  REQUIRE(map >= 0);
  std::vector<std::uint64_t> entries(bytes.size() / kPage);
  const auto first = reinterpret_cast<std::uintptr_t>(bytes.data()) / kPage;
  const auto read = ::pread(map, entries.data(), 8 * entries.size(), static_cast<off_t>(8 * first));
  ::close(map);
  REQUIRE(read == static_cast<ssize_t>(8 * entries.size()));
  return static_cast<std::size_t>(
      std::ranges::count_if(entries, [](std::uint64_t entry) { return entry >> 63 != 0; }));
}

TEST_CASE("pages of a file that are given back leave the process, and a read brings them back") {
  const std::vector<std::byte> content = numbered(64 * kPage);
  const MappedFile file(content);
  const PagesOfFile known(file.bytes());
  REQUIRE(pages_present(file.bytes()) == 64);

  // From within page 8 to within page 40: that one is not done with.
  give_back_pages(file.bytes().subspan(8 * kPage + 100, 32 * kPage));
  CHECK(pages_present(file.bytes().subspan(0, 8 * kPage)) == 8);
  CHECK(pages_present(file.bytes().subspan(8 * kPage, 32 * kPage)) == 0);
  CHECK(pages_present(file.bytes().subspan(40 * kPage)) == 24);
  CHECK(std::ranges::equal(file.bytes(), content));
}

TEST_CASE("memory that no file is known to hold stays as it is") {
  const std::vector<std::byte> content = numbered(64 * kPage);
  const std::vector<std::byte> own = content;
  give_back_pages(own);
  CHECK(own == content);

  const MappedFile file(content);
  give_back_pages(file.bytes());
  CHECK(pages_present(file.bytes()) == 64);
  std::optional<PagesOfFile> known(file.bytes());
  give_back_pages({file.bytes().data(), file.bytes().size() + 1});  // goes beyond it
  CHECK(pages_present(file.bytes()) == 64);
  known.reset();
  give_back_pages(file.bytes());
  CHECK(pages_present(file.bytes()) == 64);
  give_back_pages({});
}

}  // namespace
}  // namespace tessera
