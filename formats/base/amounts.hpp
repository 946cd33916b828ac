// Amounts as people read them: three significant digits and a unit that fits.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tessera {

/// "0 B", "512 B", "1.23 kB", "45.6 MB", "789 GB": decimal units.
std::string bytes_text(double bytes);

/// A time given in microseconds: "0 us", "12.3 ns", "4.83 us", "1.20 ms", "3.00 s".
std::string time_text(double us);

/// "7,613"; a number that is not whole has three significant digits: "0.0298".
std::string number_text(double number);

/// "1 matrix", "7,613 matrices"; the plural is the singular with an s where none is given.
std::string counted(std::int64_t count, std::string_view singular, std::string_view plural = "");

}  // namespace tessera
