// A product that was made after the timed ones, of operands with other values: it shows that they
// were computed, each from its operands, and not taken from an earlier one.
#pragma once

#include <functional>
#include <string>

#include "experiments/backends/check_result.hpp"

namespace tessera {

/// What `later`, a product of negated operands, lacks to be one: its negative is C, bit by bit but
/// for signs of zeros and for NaNs, or, where the order of sums is not fixed, right by `check`,
/// which says why a matrix is not. Empty when it lacks nothing.
std::string later_product_fault(const DenseMatrix& c, DenseMatrix later,
                                const std::function<std::string(const DenseMatrix&)>& check);
std::string later_product_fault(const CsrMatrix& c, CsrMatrix later,
                                const std::function<std::string(const CsrMatrix&)>& check);

/// What a launch after the timed ones has left undone; empty when nothing.
std::string later_launch_fault(const LaunchOutput& output);

/// Appends a reason to others; an empty one changes nothing.
void add_reason(const std::string& reason, std::string& reasons);

}  // namespace tessera
