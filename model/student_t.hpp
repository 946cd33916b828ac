// Student's t distribution.
#pragma once

namespace tessera {

/// The probability of a value above `t` with `freedom` degrees of freedom.
double student_t_above(double t, double freedom);

/// The value above which a share of (1 - confidence) / 2 lies: the limit of a two-sided interval.
double student_t_limit(double confidence, double freedom);

}  // namespace tessera
