// The sources and settings of this build; the build writes the values.
#pragma once

namespace tessera {

extern const char* const kBuildVersion;
extern const char* const kBuildCommit;  // "unknown" outside a git checkout
extern const bool kBuildDirty;          // the checkout differed from the commit
extern const char* const kBuildCompiler;
extern const char* const kBuildFlags;
extern const char* const kBuildCuda;  // version of nvcc; empty without the CUDA half

}  // namespace tessera
