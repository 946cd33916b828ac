// The sweeping half of a config: [grid], [[zip]], [[case]] and [ablation].
#pragma once

#include "experiments/config/matrix_set.hpp"
#include "experiments/config/table_reader.hpp"

namespace tessera {

/// Keys of a sweep that choose a variant, and may be { name = ..., parameter = ... }.
const std::vector<std::string>& variant_keys();

/// values = "cancelling(condition=1e4)" is values = "cancelling" and values.condition = 1e4; any
/// other setting is itself. Throws an Error with the place for a call that is none.
Settings take_apart(const std::string& key, const Setting& setting);

/// A table of plain values, lists refused: a case, a step, `where`. The members named in `except`
/// are left to the caller.
Settings read_settings(const Node& table, const std::vector<std::string>& except = {});

/// The sweeps of a whole config, as keys of `root`, into `config`.
void read_sweeps(TableReader& root, MatrixSets& sets, Config& config);

}  // namespace tessera
