/* The program `tessera` of the wheel, which has everything in libtessera.so. */

#include "kernels/abi/tessera.h"

int main(int argc, char** argv) { return tessera_main(argc, argv); }
