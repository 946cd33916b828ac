// Device half of flash_spmm. See kernels/spmm/vector_tiles/flash_spmm.cpp; vector_tiles.cuh has the
// device code.

#include "kernels/spmm/vector_tiles/flash_spmm.hpp"
#include "kernels/spmm/vector_tiles/vector_tiles_gpu.hpp"

namespace tessera {
namespace {

const Register<GpuSpmm> entry{vector_tiles::gpu_entry<flash_spmm::FlashSpmmOptions>("flash_spmm")};

}  // namespace
}  // namespace tessera
