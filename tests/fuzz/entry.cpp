// The entry points of a fuzz engine, libFuzzer's or engine.cpp's: chooses the target by
// --target=NAME, limits memory and turns wrong exceptions into crashes.
#include <malloc.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <new>

#include "formats/base/check.hpp"
#include "formats/base/parallel.hpp"
#include "tests/fuzz/target.hpp"

namespace {

std::atomic<std::size_t> used = 0;
std::atomic<std::size_t> allowed = SIZE_MAX;  // while an input runs: what was used before, and more

void* allocate(std::size_t size) {
  if (size > SIZE_MAX / 2 || used + size > allowed) return nullptr;
  void* memory = std::malloc(size == 0 ? 1 : size);
  if (memory != nullptr) used += malloc_usable_size(memory);
  return memory;
}

void release(void* memory) {
  if (memory == nullptr) return;
  used -= malloc_usable_size(memory);
  std::free(memory);
}

}  // namespace

// The sanitizer's own operator new would end the process where memory ends.
void* operator new(std::size_t size) {
  void* memory = allocate(size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void* operator new[](std::size_t size) { return operator new(size); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return allocate(size); }
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept { return allocate(size); }
void operator delete(void* memory) noexcept { release(memory); }
void operator delete[](void* memory) noexcept { release(memory); }
void operator delete(void* memory, std::size_t) noexcept { release(memory); }
void operator delete[](void* memory, std::size_t) noexcept { release(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { release(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { release(memory); }

extern "C" const char* __asan_default_options();
extern "C" const char* __asan_default_options() {
  return "allocator_may_return_null=1:detect_leaks=0:quarantine_size_mb=64";
}
extern "C" const char* __ubsan_default_options();
extern "C" const char* __ubsan_default_options() { return "print_stacktrace=1"; }

namespace tessera::fuzz {
namespace {

namespace fs = std::filesystem;

/// A folder that ends with the process.
struct Scratch {
  Scratch() {
    if (mkdtemp(path.data()) == nullptr) std::abort();
  }
  ~Scratch() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  std::string path = fs::temp_directory_path() / "tessera-fuzz-XXXXXX";
};

const Target* chosen = nullptr;
bool say = false;  // --say: print why inputs are refused

}  // namespace

std::string scratch_file(const std::string& name, std::string_view bytes) {
  static const Scratch scratch;
  std::string path = scratch.path + "/" + name;
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  return path;
}

void refused(const Error& why) {
  if (say) std::fprintf(stderr, "refused: %s\n", why.what());
}

void check(bool holds, const std::string& broken) {
  if (holds) return;
  std::fprintf(stderr, "FINDING: %s\n", broken.c_str());
  std::abort();
}

const std::map<std::string, Target>& targets() {
  static const std::map<std::string, Target> all = [] {
    std::map<std::string, Target> found = matrix_targets();
    found.merge(experiment_targets());
    return found;
  }();
  return all;
}

}  // namespace tessera::fuzz

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv);
extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  using namespace tessera::fuzz;
  tessera::set_num_threads(1);  // an input decides what runs, not the scheduler
  std::string name;
  for (int i = 1; i < *argc; ++i) {
    const std::string_view argument = (*argv)[i];
    if (argument.starts_with("--target=")) name = argument.substr(9);
    if (argument == "--say") say = true;
    if (argument != "--list") continue;
    for (const auto& [target, run] : targets()) std::printf("%s\n", target.c_str());
    std::exit(0);
  }
  const auto found = targets().find(name);
  if (found == targets().end()) {
    std::fprintf(stderr, "--target='%s' is no target; --list names them\n", name.c_str());
    std::exit(2);
  }
  chosen = &found->second;
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tessera;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  allowed = used + fuzz::kMemory;
  std::string wrong;
  try {
    (*fuzz::chosen)(input);
  } catch (const Error& error) {
    allowed = SIZE_MAX;
    fuzz::refused(error);
  } catch (const std::exception& other) {
    allowed = SIZE_MAX;
    wrong = std::string("an exception that is no Error: ") + other.what();
  }
  allowed = SIZE_MAX;
  fuzz::check(wrong.empty(), wrong);
  return 0;
}
