#include "experiments/json_instance.hpp"

template class nlohmann::basic_json<>;
