// Device half of the cuBLAS baseline. The upload scatters A into a dense matrix padded with zeros.
// Every launch converts B to FP16; for TF32 the library's own kernels round it. C is FP32.
//
// Zeros that pad K need rows of B, and the memory behind the caller's B may hold NaNs. FP16 has its
// own B in any case; for TF32 a launch copies B where K is padded, and its time includes the copy.

#include <cublas_v2.h>
#include <cuda_fp16.h>

#include "formats/base/registry.hpp"
#include "formats/csr.hpp"
#include "kernels/device/closed_library.hpp"
#include "kernels/device/half_operand.hpp"
#include "kernels/gpu_spmm.hpp"
#include "kernels/spmm/vendor/cublas.hpp"

namespace tessera {
namespace {

constexpr int kThreads = 256;
constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;  // cuBLAS recommends it for Hopper

/// The functions of the shared library that we call.
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

/// Scatters a row of A with one warp.
template <class T>
__global__ void scatter(const std::int64_t* offsets, const std::int32_t* cols, const float* values,
                        std::int64_t rows, std::int64_t ld, T* dense) {
  const std::int64_t row = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32;
  if (row >= rows) return;
  for (std::int64_t i = offsets[row] + threadIdx.x % 32; i < offsets[row + 1]; i += 32)
    dense[row * ld + cols[i]] = static_cast<T>(values[i]);
}

class CublasMultiplication final : public GpuMultiplication {
 public:
  CublasMultiplication(const CsrMatrix& a, const cublas::Layout& layout, bool half)
      : layout_(layout), half_(half), workspace_(kWorkspaceBytes) {
    std::size_t free = 0, total = 0;
    cuda_check(cudaMemGetInfo(&free, &total), "querying free memory");
    const double wanted = layout_.bytes();
    require<Unsupported>(
        wanted < 0.9 * static_cast<double>(free),
        "cublas stores A as a dense matrix: with B and C {:.3g} GB, where {:.3g} GB are free",
        wanted / 1e9, static_cast<double>(free) / 1e9);
    a_ = zeros(layout_.a_bytes());
    b_ = zeros(layout_.b_bytes());
    half_ ? fill(a, reinterpret_cast<__half*>(a_.data()))
          : fill(a, reinterpret_cast<float*>(a_.data()));
    load_convert_to_half();
    check(library_.create(&handle_), "starting");
    check(library_.set_workspace(handle_, workspace_.data(), workspace_.size()),
          "setting its workspace");
  }
  ~CublasMultiplication() override { library_.destroy(handle_); }

  void launch(int, const Operands& operands, cudaStream_t stream) override {
    const auto& [rows, cols, n, element_bytes, depth, pitch, b_in_place] = layout_;
    if (rows == 0 || n == 0) return;
    const void* b = b_in_place ? operands.b_fp32() : own_b(operands.b_fp32(), stream);
    // The library is column-major: C' [n x rows] = B' [n x depth] A' [depth x rows].
    const cudaDataType type = half_ ? CUDA_R_16F : CUDA_R_32F;
    check(library_.set_stream(handle_, stream), "setting the stream");
    check(library_.multiply(
              handle_, CUBLAS_OP_N, CUBLAS_OP_N, n, rows, depth, &operands.scaling.alpha, b, type,
              n, a_.data(), type, pitch, &operands.scaling.beta, operands.c_fp32(), CUDA_R_32F, n,
              half_ ? CUBLAS_COMPUTE_32F : CUBLAS_COMPUTE_32F_FAST_TF32, CUBLAS_GEMM_DEFAULT),
          "multiplying");
  }

 private:
  static DeviceArray<std::byte> zeros(std::int64_t bytes) {
    DeviceArray<std::byte> array(static_cast<std::size_t>(bytes));
    if (bytes > 0) cuda_check(cudaMemset(array.data(), 0, array.size()), "clearing A and B");
    return array;
  }

  template <class T>
  void fill(const CsrMatrix& a, T* dense) {
    if (a_.size() == 0) return;
    const DeviceArray<std::int64_t> offsets(a.row_offsets);
    const DeviceArray<std::int32_t> cols(a.col_indices);
    const DeviceArray<float> values(a.values);
    const auto blocks = static_cast<unsigned>((32 * layout_.rows + kThreads - 1) / kThreads);
    scatter<<<blocks, kThreads>>>(offsets.data(), cols.data(), values.data(), layout_.rows,
                                  layout_.pitch, dense);
    cuda_check(cudaGetLastError(), "launching the scattering of A");
    cuda_check(cudaDeviceSynchronize(), "scattering A");
  }

  /// Converts or copies the rows of B to our memory, where rows of zeros follow, and returns them.
  const void* own_b(const float* b, cudaStream_t stream) {
    const std::int64_t count = layout_.cols * layout_.n;
    if (half_)
      convert_to_half(b, count, reinterpret_cast<std::uint16_t*>(b_.data()), stream);
    else
      cuda_check(cudaMemcpyAsync(b_.data(), b, sizeof(float) * static_cast<std::size_t>(count),
                                 cudaMemcpyDeviceToDevice, stream),
                 "copying B");
    return b_.data();
  }

  const Library& library_ = Library::instance();
  cublas::Layout layout_;
  bool half_;
  DeviceArray<std::byte> workspace_;
  DeviceArray<std::byte> a_;  // [rows][pitch] of FP16 or FP32
  DeviceArray<std::byte> b_;  // [depth][n] of the same; empty where b_in_place
  cublasHandle_t handle_ = nullptr;
};

class GpuCublas final : public GpuSpmm {
 public:
  explicit GpuCublas(cublas::CublasOptions options) : options_(std::move(options)) {}
  std::unique_ptr<GpuMultiplication> upload(const PackedMatrix& packed,
                                            std::int64_t n) const override {
    const CsrMatrix& a = packed_as<CsrPacked>(packed).matrix;
    return std::make_unique<CublasMultiplication>(a, options_.layout(a.rows, a.cols, n),
                                                  options_.half());
  }

 private:
  cublas::CublasOptions options_;
};

const Register<GpuSpmm> entry{{
    .name = "cublas",
    .summary = "device half of cublas",
    .make =
        [](const Params& params) {
          return std::make_unique<GpuCublas>(cublas::CublasOptions(params));
        },
}};

}  // namespace
}  // namespace tessera
