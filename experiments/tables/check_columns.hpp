// The columns that a config names, checked before any point runs.
#pragma once

#include "experiments/config/config.hpp"

namespace tessera {

/// Throws an Error with the place and the nearest name for a column in [[join]], [[derive]],
/// [[unfold]], [[reduce]], [table], [[figure]] or [[expect]] that no row can have: a column is one
/// of records, one that the config makes, a parameter of a variant or a label.
void check_columns(const Config& config);

}  // namespace tessera
