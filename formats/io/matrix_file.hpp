// Matrix files: one interface for every file format, chosen by the end of the file name.
//
// Contract of a reader: it returns a valid CsrMatrix or throws an Error "file:line: the fault, the
// expectation" (without the line for binary formats); it never crashes and never guesses. Values
// are rounded to FP32; a value that FP32 cannot hold, a NaN and an infinity are refused. Duplicate
// entries are summed (in double, in file order), explicit zeros are kept. Peak memory stays within
// three times that of the returned CSR.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/base/check.hpp"
#include "formats/base/matrix.hpp"

namespace tessera {

class MatrixFile {
 public:
  static constexpr const char* kKind = "file format";
  virtual ~MatrixFile() = default;

  /// The lower-case endings of this format's file names, such as ".mtx" and ".mtx.gz".
  virtual std::vector<std::string> suffixes() const = 0;
  virtual CsrMatrix read(const std::string& path) const = 0;
  /// Compresses when the name ends in ".gz". The file takes its place only when it is whole. Throws
  /// Unsupported when the format cannot be written.
  virtual void write(const CsrMatrix& matrix, const std::string& path) const = 0;
};

/// Reads a matrix file of any registered format. Throws an Error for a name that no format claims.
CsrMatrix read_matrix(const std::string& path);

/// Writes a matrix; the end of the name chooses the format. The file gets its name only when it is
/// whole. Throws an Error for a name that no format claims.
void write_matrix(const CsrMatrix& matrix, const std::string& path);

/// True when some registered format claims this file name.
bool is_matrix_file_name(std::string_view path);

}  // namespace tessera
