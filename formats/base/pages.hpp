// Memory whose content a file holds as well: the process can do without it until it is read again.
#pragma once

#include <cstddef>
#include <span>

namespace tessera {

/// Makes a file's mapping known to give_back_pages() while the object lives.
class PagesOfFile {
 public:
  explicit PagesOfFile(std::span<const std::byte> mapping);
  ~PagesOfFile();
  PagesOfFile(const PagesOfFile&) = delete;
  PagesOfFile& operator=(const PagesOfFile&) = delete;

 private:
  const std::byte* begin_;
};

/// Takes the pages from the one in which `bytes` begin to the last one that ends with them out of
/// the process, where they are a file's. Their content stays: a read brings them back, from the
/// system's memory or from the file. Other memory stays as it is.
void give_back_pages(std::span<const std::byte> bytes);

}  // namespace tessera
