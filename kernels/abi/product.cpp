#include "kernels/abi/product.hpp"

#include "experiments/run/advice.hpp"
#include "formats/base/registry.hpp"
#include "formats/io/call_syntax.hpp"
#include "kernels/abi/guarded.hpp"
#include "model/described_limits.hpp"
#include "reorder/reordering.hpp"

namespace tessera::abi {

template <class T>
Variant variant_of(const char* text) {
  require(text != nullptr, "the {} is a null pointer", T::kKind);
  const Call call = parse_call(text);
  return {call.name, Registry<T>::instance().resolve(call.name, call.given)};
}
template Variant variant_of<Format>(const char* text);
template Variant variant_of<Reordering>(const char* text);

const Device& device_of(const char* name) { return find_device(name == nullptr ? "h200" : name); }

NamedProduct named_product(const CsrMatrix& a, std::int64_t n, const char* kernel,
                           const char* format, const char* device) {
  require_pointer(kernel, "the kernel");
  require(n >= 1, "B has {} columns; it needs at least one", n);
  NamedProduct product{.device = device_of(device)};
  if (std::string_view(kernel) == kAuto) {
    require(format == nullptr, "kernel auto chooses its format; {} cannot be given", format);
    const KernelChoice choice = choose_kernel(a, {.n = n, .device = product.device.name});
    product.kernel = choice.kernel;
    product.format = choice.format;
  } else {
    product.kernel = variant_of<SpmmKernel>(kernel);
    const std::string reads = make_registered<SpmmKernel>(product.kernel)->format();
    product.format = variant_of<Format>(format == nullptr ? reads.c_str() : format);
    require(product.format.name == reads, "kernel {} reads format {}, not {}", product.kernel.name,
            reads, product.format.name);
  }
  product.made = make_registered<SpmmKernel>(product.kernel);
  product.made->set_gpu(described_limits(product.device));
  product.packed = make_registered<Format>(product.format)->pack(a);
  return product;
}

}  // namespace tessera::abi
