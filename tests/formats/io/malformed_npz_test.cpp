// Broken .npz files are refused with the array and the place.
#include <doctest/doctest.h>

#include <cmath>

#include "tests/forged_files.hpp"

namespace tessera {
namespace {

TEST_CASE("broken npz files are refused with the array and the place") {
  const TemporaryFolder folder;
  const auto message = [&](const std::string& name, const std::string& array) {
    Arrays arrays = good_csr();
    if (array.empty())
      arrays.erase(name);
    else
      arrays[name] = array;
    write_text(folder / "a.npz", zip_of(arrays));
    const std::string text = message_of(folder / "a.npz");
    const std::string start = folder / "a.npz" + ": ";
    return text.starts_with(start) ? text.substr(start.size()) : text;
  };
  const auto i4 = [](std::vector<std::int32_t> v) { return npy("<i4", v); };
  const auto f8 = [](std::vector<double> v) { return npy("<f8", v); };

  CHECK(message("data", good_csr()["data"]) == "no error");
  for (const std::string name : {"shape", "indptr", "indices", "data"})
    CHECK(message(name, "") == "no array '" + name + "'");
  CHECK(message("format", "") ==
        "neither a sparse matrix of SciPy (no array 'format') nor a graph (no array 'src_li')");
  CHECK(message("format", npy_header("|S3", {}) + "bsr") ==
        "sparse format 'bsr'; expected csr, csc or coo");
  CHECK(message("format", npy_header("<i4", {}) + "1234") ==
        "format: array type '<i4'; expected a short text");
  CHECK(message("format", npy_header("|S-5", {}) + "csr") ==
        "format: array type '|S-5'; expected numbers");
  CHECK(message("format", npy_header("|S3", {}) + "csr?") == "format: bytes follow the text");
  CHECK(message("shape", i4({2, 3, 4})) == "'shape' holds 3 numbers; expected 2, rows and columns");
  CHECK(message("shape", i4({-2, 3})) == "-2 rows; expected 0 to 2147483647");
  CHECK(message("shape", npy<std::int64_t>("<i8", {2, 1ll << 31})) ==
        "2147483648 columns; expected 0 to 2147483647");
  CHECK(message("shape", i4({4, 3})) ==
        "'indptr' holds 3 numbers; expected 5, one more than the shape says");
  CHECK(message("indptr", i4({1, 2, 3})) == "indptr starts with 1; expected 0");
  CHECK(message("indptr", i4({0, 4, 3})) == "indptr[2] = 3 follows 4; expected it to ascend");
  CHECK(message("indptr", i4({0, 2, 4})) ==
        "'indices' holds 3 numbers; expected 4, the end of indptr");
  CHECK(message("data", npy<float>("<f4", {1, 2})) ==
        "'data' holds 2 numbers; expected 3, the end of indptr");
  CHECK(message("indices", i4({0, 3, 1})) == "indices[1] = 3, outside [0, 3)");
  CHECK(message("indices", i4({0, -1, 1})) == "indices[1] = -1, outside [0, 3)");
  CHECK(message("indices", npy<std::int64_t>("<i8", {0, 1, 1ll << 32})) ==
        "indices[2] = 4294967296; expected an integer of 32 bits");
  CHECK(message("indices", f8({0, 1, 2})) == "indices: array type '<f8'; expected integers");
  CHECK(message("data", f8({1, std::nan(""), 1})) ==
        "data[1] = nan; expected a finite number that FP32 can hold");
  CHECK(message("data", f8({1, 1, 1e39})) ==
        "data[2] = 1e+39; expected a finite number that FP32 can hold");
  CHECK(message("data", npy<std::uint16_t>("<f2", {0, 0x7c00, 0})) ==
        "data[1] = inf; expected a finite number that FP32 can hold");
  CHECK(message("data", npy<double>("<c16", {1, 2, 3, 4, 5, 6})) ==
        "data: array type '<c16'; expected real numbers");
  CHECK(message("data", npy<float>(">f4", {1, 2, 3})) ==
        "data: big-endian type '>f4'; expected little-endian");
  CHECK(message("data", npy<double>("|O", {1, 2, 3})) ==
        "data: an array of Python objects; expected numbers");
  CHECK(message("data", "not an array") ==
        "data: not a NumPy array: expected it to start with \\x93NUMPY");
  CHECK(message("data", good_csr()["data"] + "x") ==
        "data: bytes follow the 3 numbers that the header claims");
  const std::int64_t huge[] = {1ll << 40};
  CHECK(message("data", npy_header("<f4", huge) + "abcdefgh") ==
        "data: the array ends after 2 of 1099511627776 numbers");
  const std::string whole = zip_of(good_csr());
  for (const std::size_t size :
       {whole.size() - 30, whole.size() / 2, std::size_t{40}, std::size_t{0}}) {
    write_text(folder / "cut.npz", whole.substr(0, size));
    const std::string text = message_of(folder / "cut.npz");
    CAPTURE(size);
    CAPTURE(text);
    CHECK(text.starts_with(folder / "cut.npz" + ": "));
  }
}

/// A .npy file with any header: this dictionary, which it claims to be `claimed` bytes long.
std::string npy_with(const std::string& dictionary, const std::string& data, std::size_t claimed,
                     char version = 1) {
  std::string bytes = "\x93NUMPY";
  bytes += {version, '\0', static_cast<char>(claimed & 255), static_cast<char>(claimed >> 8)};
  return bytes + dictionary + data;
}

TEST_CASE("arrays of npz files whose headers lie or are damaged are refused") {
  const TemporaryFolder folder;
  const auto message = [&](const std::string& array) {
    Arrays arrays = good_csr();
    arrays["data"] = array;
    write_text(folder / "a.npz", zip_of(arrays));
    const std::string text = message_of(folder / "a.npz");
    const std::string start = folder / "a.npz" + ": data: ";
    return text.starts_with(start) ? text.substr(start.size()) : text;
  };
  const auto with_header = [&](const std::string& type, const std::string& shape) {
    const std::string dictionary =
        fmt::format("{{'descr': {}, 'fortran_order': False, 'shape': {}, }}", type, shape);
    return message(npy_with(dictionary, std::string(12, '\0'), dictionary.size()));
  };

  CHECK(with_header("'<f4'", "(3,)") == "no error");
  CHECK(with_header("'<f4'", "(2,)") == "bytes follow the 2 numbers that the header claims");
  CHECK(with_header("'<f4'", "(4,)") == "the array ends after 3 of 4 numbers");
  CHECK(with_header("'<f4'", "(281474976710655,)") ==
        "the array ends after 3 of 281474976710655 numbers");
  CHECK(with_header("'<f4'", "(4294967296, 4294967296)") ==
        "the array header claims more than 2^48 numbers");
  CHECK(with_header("'<f4'", "(9223372036854775807, 3)") ==
        "the array header claims more than 2^48 numbers");
  CHECK(with_header("'<f4'", "(-3,)") == "bad shape (-3,) in the array header");
  CHECK(with_header("'<f4'", "(three,)") == "bad shape (three,) in the array header");
  CHECK(with_header("'<f4'", "3") == "the array header has no shape in parentheses");
  CHECK(with_header("'<f4'", "(3") == "the array header has no shape in parentheses");
  CHECK(with_header("[('a', '<f4')]", "(3,)") == "a structured array; expected plain numbers");
  CHECK(with_header("'f'", "(3,)") == "unknown array type 'f'");
  CHECK(with_header("'<f3'", "(3,)") ==
        "array type '<f3'; expected real numbers of at most 64 bits");
  CHECK(with_header("'<f4x'", "(3,)") == "array type '<f4x'; expected numbers");
  CHECK(message(npy_with("{}", "", 2)) == "the array header has no 'descr':");
  CHECK(message(npy_with("{}", "", 2, 9)) == "NumPy array version 9; expected 1, 2 or 3");
  CHECK(message(npy_with("{}", "", 65535)) == "the array header is truncated");
  CHECK(message(npy_with("\xff\xff", "", 65535, 2)) == "the array header is truncated or too long");
  CHECK(message("\x93NUMPY\x01") == "not a NumPy array: expected it to start with \\x93NUMPY");
}

TEST_CASE("damaged zip containers are refused by name") {
  const TemporaryFolder folder;
  const std::string whole = zip_of(good_csr());
  const auto message = [&](const std::string& zip) {
    write_text(folder / "a.npz", zip);
    const std::string text = message_of(folder / "a.npz");
    const std::string start = folder / "a.npz" + ": ";
    return text.starts_with(start) ? text.substr(start.size()) : text;
  };
  const auto with = [&](std::size_t place, const std::string& bytes) {
    return std::string(whole).replace(place, bytes.size(), bytes);
  };
  // A member is a header of 30 bytes, its name and its bytes; the directory follows the members.
  const std::size_t data = whole.find("data.npy") - 30, directory = whole.find("PK\1\2");
  const std::string minus_one(4, '\xff');
  // The rest is libarchive's text, which changes with its version.
  const auto cannot = [&](const std::string& zip, const std::string& doing) {
    return message(zip).starts_with("cannot " + doing + ": ");
  };

  CHECK(message(whole) == "no error");
  CHECK(cannot("", "open the archive"));
  CHECK(cannot(std::string(100, '\0'), "open the archive"));
  CHECK(cannot(whole.substr(0, whole.size() - 22), "open the archive"));  // without its last record
  CHECK(cannot(whole.substr(0, whole.size() / 2), "open the archive"));
  CHECK(cannot(whole.substr(whole.size() / 2), "open the archive"));
  CHECK(cannot(with(data, "PK\7"), "read the next member"));
  CHECK(cannot(with(data + 8, "\x63"), "read member 'data.npy'"));         // the method
  CHECK(cannot(with(data + 14, minus_one), "read the next member"));       // the checksum
  CHECK(cannot(with(directory + 20, minus_one), "read the next member"));  // the size
  CHECK(cannot(with(directory + 42, minus_one), "read the next member"));  // the place
  // One bit of a text, and one of the last number before the next member.
  const auto turned = [&](std::size_t place) {
    return with(place, std::string(1, static_cast<char>(whole[place] ^ 1)));
  };
  CHECK(cannot(turned(whole.find("csr") + 2), "read member 'format.npy'"));
  CHECK(cannot(turned(whole.find("format.npy") - 31), "read member 'data.npy'"));
}

TEST_CASE("broken graphs in npz files are refused") {
  const TemporaryFolder folder;
  const auto message = [&](const Arrays& arrays) {
    write_text(folder / "g.npz", zip_of(arrays));
    return message_of(folder / "g.npz").substr((folder / "g.npz").size());
  };
  const auto i8 = [](std::vector<std::int64_t> v) { return npy("<i8", v); };

  CHECK(message({{"src_li", i8({0, 1})}, {"dst_li", i8({1, 0})}}) == ": no array 'num_nodes'");
  CHECK(message({{"src_li", i8({0, 1})}, {"num_nodes", i8({2})}}) == ": no array 'dst_li'");
  CHECK(message({{"src_li", i8({0, 1})}, {"dst_li", i8({1})}, {"num_nodes", i8({2})}}) ==
        ": 'dst_li' holds 1 numbers; expected 2, as 'src_li'");
  CHECK(message({{"src_li", i8({0, 1})}, {"dst_li", i8({1, 2})}, {"num_nodes", i8({2})}}) ==
        ": dst_li[1] = 2, outside [0, 2)");
  CHECK(message({{"src_li", i8({0, 1})}, {"dst_li", i8({1, 0})}, {"num_nodes", i8({2, 2})}}) ==
        ": 'num_nodes' holds 2 numbers; expected one");
}

}  // namespace
}  // namespace tessera
