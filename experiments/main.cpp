// tessera: the command line. Every verb registers itself from experiments/verbs/.

#include "experiments/verbs/program.hpp"

int main(int argc, char** argv) { return tessera::program_main(argc, argv); }
