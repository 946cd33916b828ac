// The sweeping half of a config: [grid], [[zip]], [[case]] and [ablation].
#pragma once

#include "experiments/matrix_set.hpp"
#include "experiments/table_reader.hpp"

namespace tessera {

/// Keys of a sweep that choose a variant, and may be { name = ..., parameter = ... }.
const std::vector<std::string>& variant_keys();

/// A table of plain values, lists refused: a case, a step, `where`. The members named in `except`
/// are left to the caller.
Settings read_settings(const Node& table, const std::vector<std::string>& except = {});

/// The sweeps of a whole config, as keys of `root`, into `config`.
void read_sweeps(TableReader& root, MatrixSets& sets, Config& config);

}  // namespace tessera
