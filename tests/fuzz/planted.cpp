// Matrix readers with planted faults, which are part of the program tessera_fuzz_planted alone: a
// test requires that the fuzzers find each.
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "formats/base/registry.hpp"
#include "formats/io/matrix_file.hpp"

namespace tessera {
namespace {

enum class Fault { kCrash, kException, kHang, kMemory, kInvalid };

class Planted final : public MatrixFile {
 public:
  Planted(Fault fault, std::string suffix) : fault_(fault), suffix_(std::move(suffix)) {}

  std::vector<std::string> suffixes() const override { return {suffix_}; }
  void write(const CsrMatrix&, const std::string&) const override {}

  CsrMatrix read(const std::string& path) const override {
    std::ifstream file(path, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    if (fault_ == Fault::kCrash) {
      // Byte by byte, so that coverage leads to it.
      if (bytes.size() < 4 || bytes[0] != 'B') return {};
      if (bytes[1] != 'U') return {};
      if (bytes[2] != 'G') return {};
      if (bytes[3] != '!') return {};
      const std::vector<char> copy(bytes.begin(), bytes.end());
      const char* volatile place = copy.data();  // a compiler may not see through it
      return {place[copy.size()], 0};
    }
    if (bytes.empty() || bytes[0] != '!') return {};
    if (fault_ == Fault::kException) throw std::out_of_range("planted");
    if (fault_ == Fault::kHang)
      for (volatile int turn = 0;; turn = 1 - turn) {
      }
    if (fault_ == Fault::kMemory)  // past operator new
      for (std::vector<void*> blocks;; blocks.push_back(std::malloc(1 << 26)))
        if (!blocks.empty() && blocks.back() != nullptr) std::memset(blocks.back(), 1, 1 << 26);
    CsrMatrix matrix;
    matrix.rows = 5;
    return matrix;
  }

 private:
  Fault fault_;
  std::string suffix_;
};

Entry<MatrixFile> planted(const char* name, Fault fault) {
  return {.name = name, .summary = "", .make = [=](const Params&) {
            return std::make_unique<Planted>(fault, std::string(".") + name);
          }};
}

const Register<MatrixFile> crash{planted("planted_crash", Fault::kCrash)};
const Register<MatrixFile> exception{planted("planted_exception", Fault::kException)};
const Register<MatrixFile> hang{planted("planted_hang", Fault::kHang)};
const Register<MatrixFile> memory{planted("planted_memory", Fault::kMemory)};
const Register<MatrixFile> invalid{planted("planted_invalid", Fault::kInvalid)};

}  // namespace
}  // namespace tessera
