// The Python of the scripts in notebooks/.
#pragma once

#include <string>
#include <vector>

namespace tessera {

/// $TESSERA_PYTHON, else the first python3 or python3.N on the PATH or in /usr/bin. A script of
/// notebooks/ that it lacks a package for looks for another one itself (notebooks/needs.py). Throws
/// an Error that says what to install.
std::string find_python();

/// Runs a program, its output on stderr, and returns its exit code. Throws an Error when it cannot
/// be started or is killed.
int run_program(const std::vector<std::string>& arguments);

}  // namespace tessera
