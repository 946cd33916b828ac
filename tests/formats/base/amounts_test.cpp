// Amounts as people read them.
#include "formats/base/amounts.hpp"

#include <doctest/doctest.h>

#include <limits>

namespace tessera {
namespace {

TEST_CASE("bytes have three digits and a unit that fits") {
  CHECK(bytes_text(0) == "0 B");
  CHECK(bytes_text(512) == "512 B");
  CHECK(bytes_text(999.4) == "999 B");
  CHECK(bytes_text(1000) == "1.00 kB");
  CHECK(bytes_text(12345) == "12.3 kB");
  CHECK(bytes_text(999499) == "999 kB");
  CHECK(bytes_text(999500) == "1.00 MB");
  CHECK(bytes_text(1.5e9) == "1.50 GB");
  CHECK(bytes_text(4e18) == "4000 PB");
}

TEST_CASE("times have three digits and a unit that fits") {
  CHECK(time_text(0) == "0 us");
  CHECK(time_text(0.0123) == "12.3 ns");
  CHECK(time_text(0.9994) == "999 ns");
  CHECK(time_text(0.9996) == "1.00 us");
  CHECK(time_text(4.8314) == "4.83 us");
  CHECK(time_text(9.996) == "10.0 us");
  CHECK(time_text(1234) == "1.23 ms");
  CHECK(time_text(90e6) == "90.0 s");
  CHECK(time_text(5000e6) == "5000 s");
  CHECK(time_text(std::numeric_limits<double>::infinity()) == "inf us");
}

TEST_CASE("whole numbers are grouped, others have three digits") {
  CHECK(number_text(0) == "0");
  CHECK(number_text(999) == "999");
  CHECK(number_text(7613) == "7,613");
  CHECK(number_text(-1234567) == "-1,234,567");
  CHECK(number_text(0.02978764151) == "0.0298");
  CHECK(number_text(2831.433857) == "2831");
  CHECK(number_text(3e20) == "3e+20");
}

TEST_CASE("one thing is singular, none and many are plural") {
  CHECK(counted(1, "matrix", "matrices") == "1 matrix");
  CHECK(counted(0, "matrix", "matrices") == "0 matrices");
  CHECK(counted(2500, "point") == "2,500 points");
}

}  // namespace
}  // namespace tessera
