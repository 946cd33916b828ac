// nlohmann::json with its functions compiled once, in json_instance.cpp, not in each of some 150
// files.
//
// Part of the precompiled header of experiments/ and tests/ (CMakeLists.txt); no file includes it
// by name, and all of them compile without it.
#pragma once

#include <nlohmann/json.hpp>

extern template class nlohmann::basic_json<>;
