// Lists of values in options: "32,128,512", "32:512:*2", "acc_spmm(precision=tf32),csr_spmm",
// "kernel=acc_spmm,csr_spmm".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/config/config.hpp"

namespace tessera {

/// The parts between commas outside brackets and double quotes, without blanks at their ends.
/// Throws an Error that names the option for an empty part.
std::vector<std::string> split_values(std::string_view option, std::string_view text);
std::vector<std::string> split_values(std::string_view option,
                                      const std::vector<std::string>& texts);

/// Numbers and ranges FROM:TO:STEP, of which the step is +K (or K), or *K; the end is included
/// where the steps meet it. No number twice, in the order given. Throws an Error that names the
/// option for anything else, for numbers below 1 and for more than 1000 of them.
std::vector<std::int64_t> integer_values(std::string_view option, std::string_view text);

/// "COLUMN=VALUE[,VALUE...]" as a `where`: each a number, true, false, or text. A column given
/// several times takes the values of all.
Settings where_values(const std::string& option, const std::vector<std::string>& texts);

/// A value as in a config: an integer, a number, true, false, or text.
Json plain_value(const std::string& text);

}  // namespace tessera
