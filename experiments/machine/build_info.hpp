// What this binary was built from and how; the values are written by the build.
#pragma once

namespace tessera {

extern const char* const kBuildVersion;
extern const char* const kBuildCommit;  // "unknown" outside a git checkout
extern const bool kBuildDirty;          // the checkout differed from the commit
extern const char* const kBuildCompiler;
extern const char* const kBuildFlags;
extern const char* const kBuildCuda;  // version of nvcc; empty without the CUDA half

}  // namespace tessera
