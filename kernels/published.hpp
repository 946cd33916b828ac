// The systems as their papers describe them: for each choice of a system the value that the paper
// takes, and where it says so. Our own defaults may be other values; verdicts on a paper rest on
// these.
#pragma once

#include <string>
#include <vector>

#include "formats/base/params.hpp"

namespace tessera {

/// A published system, registered under the name of the kernel that implements it.
struct Published {
  static constexpr const char* kKind = "published system";

  struct Choice {
    std::string key;  // as in a config: "kernel.mma", "format.tile_rows", "reorder"
    ParamValue value;
    std::string source;  // section, equation, algorithm or table of the paper
  };

  std::string paper;
  std::vector<Choice> choices;
  /// What our code does otherwise even so, a sentence each.
  std::vector<std::string> departures;
};

/// The values of `as`, in kernel = { name = ..., as = "published" }: every choice of the paper, or
/// our own choices, which are the defaults of the parameters.
inline constexpr const char* kAsPublished = "published";
inline constexpr const char* kAsDefault = "default";

}  // namespace tessera
