// The Matrix Market parser, for the reader of .mtx files and for archives that hold one.
#pragma once

#include <memory>
#include <string>

#include "formats/base/matrix.hpp"
#include "formats/io/byte_stream.hpp"

namespace tessera {

/// Parses a Matrix Market file. Throws an Error for malformed data and Unsupported for complex
/// values; `name` opens every message.
CsrMatrix parse_matrix_market(std::unique_ptr<ByteSource> bytes, const std::string& name);

}  // namespace tessera
