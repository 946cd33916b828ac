#include "formats/io/npy.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "formats/base/check.hpp"

namespace tessera {
namespace {

static_assert(std::endian::native == std::endian::little, "arrays are read as they lie");

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::int64_t kLongestHeader = 1 << 16;
constexpr std::int64_t kPiece = 1 << 18;      // numbers converted at a time
constexpr std::int64_t kReserveAhead = 1024;  // untouched memory costs nothing

/// IEEE 754 binary16, which C++20 has no portable type for.
struct Half {
  std::uint16_t bits;
};

float to_float(Half half) {
  const int exponent = (half.bits >> 10) & 31;
  const auto fraction = static_cast<float>(half.bits & 1023);
  const float magnitude = exponent == 31  ? (fraction == 0 ? INFINITY : NAN)
                          : exponent == 0 ? std::ldexp(fraction, -24)
                                          : std::ldexp(fraction + 1024, exponent - 25);
  return (half.bits & 0x8000) != 0 ? -magnitude : magnitude;
}

template <class From, class To>
bool convert_number(From from, To& to) {
  if constexpr (std::is_same_v<From, Half>) {
    to = static_cast<To>(to_float(from));
    return std::isfinite(to);
  } else if constexpr (std::is_floating_point_v<To>) {
    if constexpr (std::is_same_v<From, double>)
      if (std::abs(from) > 2.0 * double{std::numeric_limits<float>::max()}) return false;
    to = static_cast<To>(from);
    return std::isfinite(to);
  } else {
    to = static_cast<To>(from);
    return std::in_range<To>(from);
  }
}

template <class From>
std::string show(From from) {
  if constexpr (std::is_same_v<From, Half>)
    return fmt::format("{}", to_float(from));
  else
    return fmt::format("{}", from);
}

/// The text after `'key':` in the header's Python dictionary.
std::string_view value_of(std::string_view header, std::string_view key, const std::string& name) {
  const std::string quoted = fmt::format("'{}':", key);
  const std::size_t place = header.find(quoted);
  require(place != std::string_view::npos, "{}: the array header has no {}", name, quoted);
  std::string_view rest = header.substr(place + quoted.size());
  rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  return rest;
}

std::vector<std::int64_t> parse_shape(std::string_view text, const std::string& name) {
  const std::size_t close = text.find(')');
  require(text.starts_with('(') && close != std::string_view::npos,
          "{}: the array header has no shape in parentheses", name);
  std::vector<std::int64_t> shape;
  const char* at = text.data() + 1;
  const char* end = text.data() + close;
  while (true) {
    while (at != end && (*at == ' ' || *at == ',' || *at == 'L')) ++at;
    if (at == end) return shape;
    std::int64_t extent = -1;
    const auto [stop, error] = std::from_chars(at, end, extent);
    require(error == std::errc() && extent >= 0, "{}: bad shape {} in the array header", name,
            text.substr(0, close + 1));
    shape.push_back(extent);
    at = stop;
  }
}

std::int64_t product(const std::vector<std::int64_t>& shape, const std::string& name) {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape)
    require(!__builtin_mul_overflow(count, extent, &count) && count < (std::int64_t{1} << 48),
            "{}: the array header claims more than 2^48 numbers", name);
  return count;
}

std::string read_header_text(ByteSource& bytes, const std::string& name) {
  char start[12];
  require(bytes.read({start, 8}) == 8 && std::string_view(start, 6) == kMagic,
          "{}: not a NumPy array: expected it to start with \\x93NUMPY", name);
  const int version = start[6];
  require(version >= 1 && version <= 3, "{}: NumPy array version {}; expected 1, 2 or 3", name,
          version);
  const std::size_t size_bytes = version == 1 ? 2 : 4;
  std::uint32_t size = 0;
  const bool complete = bytes.read({start, size_bytes}) == size_bytes;
  std::memcpy(&size, start, size_bytes);
  require(complete && size <= kLongestHeader, "{}: the array header is truncated or too long",
          name);
  std::string header(size, '\0');
  require(bytes.read(header) == size, "{}: the array header is truncated", name);
  return header;
}

}  // namespace

NpyReader::NpyReader(ByteSource& bytes, std::string name) : bytes_(bytes), name_(std::move(name)) {
  const std::string text = read_header_text(bytes, name_);
  const std::string_view type = value_of(text, "descr", name_);
  require(type.starts_with('\''), "{}: a structured array; expected plain numbers", name_);
  type_ = type.substr(1, std::min(type.find('\'', 1), type.size()) - 1);
  header_.column_major = value_of(text, "fortran_order", name_).starts_with("True");
  header_.shape = parse_shape(value_of(text, "shape", name_), name_);
  header_.count = product(header_.shape, name_);

  require(type_.size() >= 2, "{}: unknown array type '{}'", name_, type_);
  require(type_[1] != 'O', "{}: an array of Python objects; expected numbers", name_);
  require(type_[0] != '>', "{}: big-endian type '{}'; expected little-endian", name_, type_);
  header_.kind = type_[1];
  const auto [stop, error] =
      std::from_chars(type_.data() + 2, type_.data() + type_.size(), header_.item_bytes);
  const bool order_known = std::string_view("<|=").find(type_[0]) != std::string_view::npos;
  if (error != std::errc() || stop != type_.data() + type_.size() || !order_known ||
      header_.item_bytes < 0)
    fail_type("numbers");
}

void NpyReader::fail_type(std::string_view expected) const {
  throw Error(fmt::format("{}: array type '{}'; expected {}", name_, type_, expected));
}

template <class From, class To>
std::vector<To> NpyReader::convert() {
  std::vector<From> piece(std::min(kPiece, header_.count));
  std::vector<To> numbers;
  for (std::int64_t done = 0; done < header_.count;) {
    const std::int64_t wanted = std::min(kPiece, header_.count - done);
    const std::size_t size = wanted * sizeof(From);
    const std::size_t got = bytes_.read({reinterpret_cast<char*>(piece.data()), size});
    require(got == size, "{}: the array ends after {} of {} numbers", name_,
            done + static_cast<std::int64_t>(got / sizeof(From)), header_.count);
    // Memory is reserved by the header's claim only once data has arrived, and only a bounded
    // amount ahead of it.
    if (numbers.capacity() < numbers.size() + wanted)
      numbers.reserve(std::min(header_.count, kReserveAhead * (done + wanted)));
    for (std::int64_t k = 0; k < wanted; ++k) {
      To number = 0;
      if (!convert_number(piece[k], number))
        throw Error(fmt::format("{}[{}] = {}; expected {}", name_, done + k, show(piece[k]),
                                std::is_floating_point_v<To>
                                    ? "a finite number that FP32 can hold"
                                    : fmt::format("an integer of {} bits", 8 * sizeof(To))));
      numbers.push_back(number);
    }
    done += wanted;
  }
  require_end(fmt::format("the {} numbers that the header claims", header_.count));
  return numbers;
}

/// Requires the end of the data, where a zip archive also verifies the checksum of a member.
void NpyReader::require_end(std::string_view what) {
  char extra;
  require(bytes_.read({&extra, 1}) == 0, "{}: bytes follow {}", name_, what);
}

template <class To>
std::vector<To> NpyReader::integers() {
  const std::int64_t size = header_.item_bytes;
  if (header_.kind == 'i') {
    if (size == 1) return convert<std::int8_t, To>();
    if (size == 2) return convert<std::int16_t, To>();
    if (size == 4) return convert<std::int32_t, To>();
    if (size == 8) return convert<std::int64_t, To>();
  } else if (header_.kind == 'u' || (header_.kind == 'b' && std::is_floating_point_v<To>)) {
    if (size == 1) return convert<std::uint8_t, To>();
    if (size == 2) return convert<std::uint16_t, To>();
    if (size == 4) return convert<std::uint32_t, To>();
    if (size == 8) return convert<std::uint64_t, To>();
  }
  fail_type(std::is_floating_point_v<To> ? "real numbers" : "integers");
}

std::vector<std::int32_t> NpyReader::indices() { return integers<std::int32_t>(); }
std::vector<std::int64_t> NpyReader::offsets() { return integers<std::int64_t>(); }

std::vector<float> NpyReader::values() {
  if (header_.kind != 'f') return integers<float>();
  if (header_.item_bytes == 2) return convert<Half, float>();
  if (header_.item_bytes == 4) return convert<float, float>();
  if (header_.item_bytes == 8) return convert<double, float>();
  fail_type("real numbers of at most 64 bits");
}

std::string NpyReader::text() {
  const bool wide = header_.kind == 'U';
  if ((header_.kind != 'S' && !wide) || header_.count != 1 || header_.item_bytes > 64)
    fail_type("a short text");
  std::string raw(header_.item_bytes * (wide ? 4 : 1), '\0');
  require(bytes_.read(raw) == raw.size(), "{}: the text is truncated", name_);
  require_end("the text");
  std::string text;
  for (std::size_t i = 0; i < raw.size() && raw[i] != '\0'; i += wide ? 4 : 1) text += raw[i];
  return text;
}

std::string npy_header(std::string_view type, std::span<const std::int64_t> shape) {
  std::string dictionary =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", type,
                  fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
  constexpr std::size_t kStart = 10;  // magic, version and size
  constexpr std::size_t kAlignment = 64;
  while ((kStart + dictionary.size() + 1) % kAlignment != 0) dictionary += ' ';
  dictionary += '\n';
  const auto size = static_cast<std::uint16_t>(dictionary.size());
  std::string header(kMagic);
  header += {'\x01', '\x00', static_cast<char>(size & 255), static_cast<char>(size >> 8)};
  return header + dictionary;
}

// --- files of one array --------------------------------------------------------------------------

DenseMatrix read_npy(const std::string& path) {
  const auto bytes = open_bytes(path);
  NpyReader reader(*bytes, path);
  const NpyHeader& header = reader.header();
  require(header.shape.size() == 1 || header.shape.size() == 2,
          "{}: an array of {} dimensions; expected a matrix", path, header.shape.size());
  DenseMatrix matrix;
  std::vector<float> values = reader.values();
  matrix.rows = header.shape[0];
  matrix.cols = header.shape.size() == 2 ? header.shape[1] : 1;
  if (!header.column_major || matrix.cols <= 1) {
    matrix.values = std::move(values);
    return matrix;
  }
  matrix.values.resize(values.size());
  for (std::int64_t i = 0; i < matrix.rows; ++i)
    for (std::int64_t j = 0; j < matrix.cols; ++j) matrix.at(i, j) = values[j * matrix.rows + i];
  return matrix;
}

namespace {

template <class T>
void write_array(const std::string& path, std::string_view type,
                 std::span<const std::int64_t> shape, std::span<const T> numbers) {
  ByteSink sink(path);
  sink.write(npy_header(type, shape));
  sink.write({reinterpret_cast<const char*>(numbers.data()), numbers.size_bytes()});
  sink.finish();
}

}  // namespace

void write_npy(const std::string& path, const DenseMatrix& matrix) {
  const std::int64_t shape[] = {matrix.rows, matrix.cols};
  write_array<float>(path, "<f4", shape, matrix.values);
}

std::vector<std::int32_t> read_npy_indices(const std::string& path) {
  const auto bytes = open_bytes(path);
  NpyReader reader(*bytes, path);
  require(reader.header().shape.size() == 1, "{}: an array of {} dimensions; expected one", path,
          reader.header().shape.size());
  return reader.indices();
}

void write_npy_indices(const std::string& path, std::span<const std::int32_t> indices) {
  const std::int64_t shape[] = {static_cast<std::int64_t>(indices.size())};
  write_array<std::int32_t>(path, "<i4", shape, indices);
}

}  // namespace tessera
