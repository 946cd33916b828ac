// Names from outside, before they are printed.
#include "formats/base/escaped.hpp"

#include <doctest/doctest.h>

#include <string>

namespace tessera {
namespace {

TEST_CASE("control characters are escaped, and other text stays as it is") {
  CHECK(escaped("") == "");
  CHECK(escaped("rmat(scale=12) or a b.mtx") == "rmat(scale=12) or a b.mtx");
  CHECK(escaped("gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x99\x82") ==
        "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x99\x82");
  CHECK(escaped("\x1b[31mred\n\t\x7f") == "\\x1b[31mred\\x0a\\x09\\x7f");
  CHECK(escaped(std::string("a\0b", 3)) == "a\\x00b");
  CHECK(escaped("\xc2\x9b"
                "31m") == "\\xc2\\x9b31m");  // the same control in two bytes
}

TEST_CASE("ends of lines stay where lines are wanted") {
  CHECK(escaped_lines("") == "");
  CHECK(escaped_lines("a\n\tb\r\n") == "a\n\\x09b\\x0d\n");
}

TEST_CASE("bytes that are not UTF-8 are escaped") {
  for (const std::string bytes :
       {"\x80", "\xff", "\xc3", "\xc0\xaf", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xe2\x82",
        "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xf0\x9f\x99"}) {
    CAPTURE(escaped(bytes));
    CHECK(escaped(bytes).size() == 4 * bytes.size());
    CHECK(escaped("a" + bytes + "z").starts_with("a\\x"));
    CHECK(escaped("a" + bytes + "z").ends_with("z"));
  }
}

}  // namespace
}  // namespace tessera
