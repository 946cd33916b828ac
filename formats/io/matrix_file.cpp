#include "formats/io/matrix_file.hpp"
