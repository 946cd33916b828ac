// Device half of magicube. See kernels/spmm/vector_tiles/magicube.cpp; vector_tiles.cuh has the
// device code.

#include "kernels/spmm/vector_tiles/magicube.hpp"
#include "kernels/spmm/vector_tiles/vector_tiles_gpu.hpp"

namespace tessera {
namespace {

const Register<GpuSpmm> entry{vector_tiles::gpu_entry<magicube::MagicubeOptions>("magicube")};

}  // namespace
}  // namespace tessera
