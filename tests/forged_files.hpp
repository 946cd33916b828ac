// Matrix files that tests assemble by hand, so that they can have any fault.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "formats/io/byte_stream.hpp"
#include "formats/io/matrix_file.hpp"
#include "formats/io/npy.hpp"
#include "tests/support.hpp"

namespace tessera {

/// The message of the Error from reading the file, or "no error".
inline std::string message_of(const std::string& path) {
  try {
    validate(read_matrix(path));
    return "no error";
  } catch (const Error& error) {
    return error.what();
  }
}

inline std::string gzipped(const std::string& text) {
  const TemporaryFolder folder;
  ByteSink sink(folder / "a.gz");
  sink.write(text);
  sink.finish();
  return read_text(folder / "a.gz");
}

inline const std::string kReal = "%%MatrixMarket matrix coordinate real general\n";
inline const std::string kPattern = "%%MatrixMarket matrix coordinate pattern general\n";
inline const std::string kSymmetric = "%%MatrixMarket matrix coordinate real symmetric\n";
inline const std::string kArray = "%%MatrixMarket matrix array real general\n";

/// A tar file of these members with any paths in any order. Every header states a size that is
/// `too_long` bytes too large.
inline std::string tar_of(const std::vector<std::pair<std::string, std::string>>& members,
                          std::size_t too_long = 0) {
  constexpr std::size_t kUnit = 512;
  std::string tar;
  for (const auto& [name, text] : members) {
    std::string header(kUnit, '\0');
    const auto put = [&](std::size_t at, const std::string& field) {
      header.replace(at, field.size(), field);
    };
    put(0, name);
    put(100, "0000644");
    put(124, fmt::format("{:011o}", text.size() + too_long));
    put(148, "        ");
    put(156, "0");
    put(257, "ustar");
    put(263, "00");
    unsigned sum = 0;
    for (const char c : header) sum += static_cast<unsigned char>(c);
    put(148, fmt::format("{:06o}", sum) + '\0');
    tar += header + text + std::string((kUnit - text.size() % kUnit) % kUnit, '\0');
  }
  return tar + std::string(2 * kUnit, '\0');
}

/// The arrays of a .npz, as bytes of .npy files by name.
using Arrays = std::map<std::string, std::string>;

template <class T>
inline std::string npy(const std::string& type, const std::vector<T>& numbers) {
  const std::int64_t shape[] = {static_cast<std::int64_t>(numbers.size())};
  return npy_header(type, shape) +
         std::string(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(T));
}

/// A zip file of stored members, assembled here so that it can have any fault.
inline std::string zip_of(const Arrays& arrays) {
  std::string zip, directory;
  const auto number = [](std::uint64_t value, int bytes) {
    std::string text;
    for (int b = 0; b < bytes; ++b) text += static_cast<char>(b < 8 ? value >> (8 * b) : 0);
    return text;
  };
  for (const auto& [name, bytes] : arrays) {
    const std::string file = name + ".npy";
    const std::uint64_t sum =
        crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
    const std::string common = number(20, 2) + number(0, 8) + number(sum, 4) +
                               number(bytes.size(), 4) + number(bytes.size(), 4) +
                               number(file.size(), 2) + number(0, 2);
    directory += "PK\1\2" + number(20, 2) + common + number(0, 10) + number(zip.size(), 4) + file;
    zip += "PK\3\4" + common + file + bytes;
  }
  return zip + directory + "PK\5\6" + number(0, 4) + number(arrays.size(), 2) +
         number(arrays.size(), 2) + number(directory.size(), 4) + number(zip.size(), 4) +
         number(0, 2);
}

inline Arrays good_csr() {
  return {{"format", npy_header("|S3", {}) + "csr"},
          {"shape", npy<std::int64_t>("<i8", {2, 3})},
          {"indptr", npy<std::int32_t>("<i4", {0, 2, 3})},
          {"indices", npy<std::int32_t>("<i4", {0, 2, 1})},
          {"data", npy<float>("<f4", {1.5f, -2, 4})}};
}

}  // namespace tessera
