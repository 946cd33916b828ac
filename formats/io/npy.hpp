// NumPy arrays: the .npy format, version 1.0 to 3.0 (NumPy Enhancement Proposal 1), of
// little-endian numbers. Dense matrices and permutations travel in such files; .npz holds one per
// member.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/base/matrix.hpp"
#include "formats/io/byte_stream.hpp"

namespace tessera {

/// Reads a one- or two-dimensional array of any number type and either storage order as FP32; one
/// dimension becomes one column. Throws an Error for values that FP32 cannot hold, NaN included.
DenseMatrix read_npy(const std::string& path);
void write_npy(const std::string& path, const DenseMatrix& matrix);

/// Reads a one-dimensional array of integers, such as a permutation.
std::vector<std::int32_t> read_npy_indices(const std::string& path);
void write_npy_indices(const std::string& path, std::span<const std::int32_t> indices);

/// The header of an array.
struct NpyHeader {
  char kind = 0;  // 'b' bool, 'i' signed, 'u' unsigned, 'f' float, 'S' bytes, 'U' UTF-32 text
  std::int64_t item_bytes = 0;
  bool column_major = false;
  std::vector<std::int64_t> shape;
  std::int64_t count = 1;  // product of the shape
};

/// A reader of one array. `name` opens every message.
class NpyReader {
 public:
  NpyReader(ByteSource& bytes, std::string name);

  const NpyHeader& header() const { return header_; }

  // Each reads all numbers, in storage order, and throws an Error with the index of the first that
  // the result type cannot hold. Memory grows with the bytes read, not with the header's claim.
  std::vector<std::int32_t> indices();
  std::vector<std::int64_t> offsets();
  std::vector<float> values();
  std::string text();

 private:
  template <class To>
  std::vector<To> integers();
  template <class From, class To>
  std::vector<To> convert();
  void require_end(std::string_view what);
  [[noreturn]] void fail_type(std::string_view expected) const;

  ByteSource& bytes_;
  std::string name_;
  std::string type_;  // in the header's notation
  NpyHeader header_;
};

/// The header of a C-ordered array, padded as the format requires.
std::string npy_header(std::string_view type, std::span<const std::int64_t> shape);

}  // namespace tessera
