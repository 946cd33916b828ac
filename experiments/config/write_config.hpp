// The other direction: a list of products as the TOML text of a config, for people to read and for
// load_config() to load. `tessera sweep` asks for products this way, so that there is one reader.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "experiments/points/point.hpp"

namespace tessera {

/// An axis of [grid] with its values: text, numbers, or {"name": ..., parameter: ...} of a variant.
struct RequestedAxis {
  std::string name;
  std::vector<Json> values;
};

/// A kernel with the parameters that were given.
struct RequestedKernel {
  std::string name;
  std::map<std::string, Json> parameters = {};

  std::string label() const;  // "acc_spmm(balance=none)"
  bool operator==(const RequestedKernel&) const = default;
};

/// Axis -> the values of which a point has to have one; "kernel" takes names and labels.
using RequestedSkip = std::map<std::string, std::vector<Json>>;

struct SweepRequest {
  std::vector<std::string> backends = {};
  std::vector<RequestedAxis> axes = {};  // without kernel, "matrix" first
  std::vector<RequestedKernel> kernels = {};
  std::vector<RequestedSkip> skips = {};  // points that match one of them are left out
  std::map<std::string, std::map<std::string, Json>> sections = {};  // [measure], [counters], ...
  std::vector<std::string> measures = {"gflops"};  // columns; the first one is drawn
  std::string baseline = {};                       // label of the kernel to divide by in figures
};

struct WrittenConfig {
  std::string id = {};      // "sweep-", then 8 digits over what decides the points
  std::string text = {};    // TOML
  std::string series = {};  // column of the kernels: "kernel", or "case" with parameters
  std::vector<std::string> settings =
      {};  // columns of the axes that have several values, but matrix
};

/// Throws an Error for an unknown axis in a skip, and for skips that leave nothing.
WrittenConfig write_config(const SweepRequest& request);

/// The kernels that the texts name: "acc_spmm", "acc_spmm(balance=none)", or a pattern with * and ?
/// of registered names. Throws an Error with the nearest name for an unknown kernel or parameter.
std::vector<RequestedKernel> requested_kernels(const std::vector<std::string>& texts);

/// Gives every kernel that has the parameter each of its values in turn. Returns whether one has
/// it.
bool vary_parameter(const std::string& parameter, const std::vector<std::string>& values,
                    std::vector<RequestedKernel>& kernels);

/// A reordering, model or value family as in a config: its name, or an object with parameters.
/// Throws an Error with the nearest name for an unknown one.
Json requested_variant(const std::string& stage, const std::string& text);

}  // namespace tessera
