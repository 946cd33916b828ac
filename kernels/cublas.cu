// Device half of the cuBLAS baseline: A scattered into a dense matrix once, B converted in every
// launch (FP16; TF32 is rounded by the library's own kernels), C in FP32.

#include <cublas_v2.h>
#include <cuda_fp16.h>

#include "formats/base/registry.hpp"
#include "formats/csr.hpp"
#include "kernels/closed_library.hpp"
#include "kernels/cublas.hpp"
#include "kernels/gpu_spmm.hpp"

namespace tessera {
namespace {

constexpr int kThreads = 256;
constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;  // what cuBLAS asks for on Hopper

/// The functions used here, found in the shared library.
class Library {
 public:
  static const Library& instance() {
    static const Library library;
    return library;
  }

  decltype(&cublasCreate) create;
  decltype(&cublasDestroy) destroy;
  decltype(&cublasSetStream) set_stream;
  decltype(&cublasSetWorkspace) set_workspace;
  decltype(&cublasGetStatusString) status_string;
  decltype(&cublasGemmEx_64) multiply;

 private:
  Library() : file_(fmt::format("libcublas.so.{}", CUBLAS_VER_MAJOR)) {
    file_.load(create, "cublasCreate_v2");
    file_.load(destroy, "cublasDestroy_v2");
    file_.load(set_stream, "cublasSetStream_v2");
    file_.load(set_workspace, "cublasSetWorkspace_v2");
    file_.load(status_string, "cublasGetStatusString");
    file_.load(multiply, "cublasGemmEx_64");
  }

  ClosedLibrary file_;
};

void check(cublasStatus_t status, const char* doing) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  const auto message =
      fmt::format("cuBLAS error while {}: {}", doing, Library::instance().status_string(status));
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) throw Unsupported(message);
  if (status == CUBLAS_STATUS_ALLOC_FAILED) throw OutOfMemory(message);
  throw std::runtime_error(message);
}

/// One warp a row.
template <class T>
__global__ void scatter(const std::int64_t* offsets, const std::int32_t* cols, const float* values,
                        std::int64_t rows, std::int64_t ld, T* dense) {
  const std::int64_t row = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32;
  if (row >= rows) return;
  for (std::int64_t i = offsets[row] + threadIdx.x % 32; i < offsets[row + 1]; i += 32)
    dense[row * ld + cols[i]] = static_cast<T>(values[i]);
}

__global__ void to_half(const float* from, std::int64_t count, __half* to) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride)
    to[i] = __float2half_rn(from[i]);
}

class CublasMultiplication final : public GpuMultiplication {
 public:
  CublasMultiplication(const CsrMatrix& a, std::int64_t n, bool half)
      : rows_(a.rows), cols_(a.cols), n_(n), half_(half), workspace_(kWorkspaceBytes) {
    const std::size_t bytes = half ? sizeof(__half) : sizeof(float);
    std::size_t free = 0, total = 0;
    cuda_check(cudaMemGetInfo(&free, &total), "asking for free memory");
    const double wanted = static_cast<double>(bytes) * static_cast<double>(rows_) *
                          static_cast<double>((cols_ + n_) + 1);
    require<Unsupported>(wanted < 0.8 * static_cast<double>(free),
                         "A as a dense matrix takes {:.3g} GB; {:.3g} GB are free", wanted / 1e9,
                         static_cast<double>(free) / 1e9);
    a_ = DeviceArray<std::byte>(bytes * static_cast<std::size_t>(rows_ * cols_));
    if (half_) b_half_ = DeviceArray<__half>(static_cast<std::size_t>(cols_ * n_));
    half_ ? fill(a, reinterpret_cast<__half*>(a_.data()))
          : fill(a, reinterpret_cast<float*>(a_.data()));
    load_now(to_half);
    check(library_.create(&handle_), "starting");
    check(library_.set_workspace(handle_, workspace_.data(), workspace_.size()),
          "giving it memory");
  }
  ~CublasMultiplication() override { library_.destroy(handle_); }

  void launch(int, const Operands& operands, cudaStream_t stream) override {
    if (rows_ == 0 || n_ == 0) return;
    const void* b = operands.b;
    if (half_) {
      const std::int64_t blocks = (cols_ * n_ + kThreads - 1) / kThreads;
      to_half<<<static_cast<unsigned>(std::min<std::int64_t>(blocks, 4096)), kThreads, 0, stream>>>(
          operands.b, cols_ * n_, b_half_.data());
      cuda_check(cudaGetLastError(), "launching B's conversion");
      b = b_half_.data();
    }
    // Column-major, as the library has it: C' [n x rows] = B' [n x cols] A' [cols x rows].
    const cudaDataType type = half_ ? CUDA_R_16F : CUDA_R_32F;
    check(library_.set_stream(handle_, stream), "choosing a stream");
    check(library_.multiply(
              handle_, CUBLAS_OP_N, CUBLAS_OP_N, n_, rows_, cols_, &operands.scaling.alpha, b, type,
              n_, a_.data(), type, cols_, &operands.scaling.beta, operands.c, CUDA_R_32F, n_,
              half_ ? CUBLAS_COMPUTE_32F : CUBLAS_COMPUTE_32F_FAST_TF32, CUBLAS_GEMM_DEFAULT),
          "multiplying");
  }

 private:
  template <class T>
  void fill(const CsrMatrix& a, T* dense) {
    if (a_.size() == 0) return;
    cuda_check(cudaMemset(dense, 0, a_.size()), "clearing the dense A");
    const DeviceArray<std::int64_t> offsets(a.row_offsets);
    const DeviceArray<std::int32_t> cols(a.col_indices);
    const DeviceArray<float> values(a.values);
    const auto blocks = static_cast<unsigned>((32 * rows_ + kThreads - 1) / kThreads);
    scatter<<<blocks, kThreads>>>(offsets.data(), cols.data(), values.data(), rows_, cols_, dense);
    cuda_check(cudaGetLastError(), "launching the scattering of A");
    cuda_check(cudaDeviceSynchronize(), "scattering A");
  }

  const Library& library_ = Library::instance();
  std::int64_t rows_;
  std::int64_t cols_;
  std::int64_t n_;
  bool half_;
  DeviceArray<std::byte> workspace_;
  DeviceArray<std::byte> a_;    // [rows][cols] of FP16 or FP32
  DeviceArray<__half> b_half_;  // [cols][n], FP16 only
  cublasHandle_t handle_ = nullptr;
};

class GpuCublas final : public GpuSpmm {
 public:
  explicit GpuCublas(cublas::Choices choices) : choices_(std::move(choices)) {}
  std::unique_ptr<GpuMultiplication> upload(const PackedMatrix& packed,
                                            std::int64_t n) const override {
    return std::make_unique<CublasMultiplication>(packed_as<CsrPacked>(packed).matrix, n,
                                                  choices_.half());
  }

 private:
  cublas::Choices choices_;
};

const Register<GpuSpmm> entry{{
    .name = "cublas",
    .summary = "device half of cublas",
    .make =
        [](const Params& params) { return std::make_unique<GpuCublas>(cublas::Choices(params)); },
}};

}  // namespace
}  // namespace tessera
