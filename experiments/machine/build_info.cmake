# Writes build_info.cpp: commit and state of the sources, compiler, flags. Run at every build; the
# file is touched only when something changed.
set(commit unknown)
set(dirty false)
execute_process(COMMAND git -C ${SOURCE} rev-parse --short=12 HEAD
                OUTPUT_VARIABLE head OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET
                RESULT_VARIABLE failed)
if(NOT failed)
  set(commit ${head})
  execute_process(COMMAND git -C ${SOURCE} status --porcelain --untracked-files=no
                  OUTPUT_VARIABLE changes ERROR_QUIET)
  if(changes)
    set(dirty true)
  endif()
endif()
set(text "#include \"experiments/machine/build_info.hpp\"

namespace tessera {

const char* const kBuildVersion = \"${VERSION}\";
const char* const kBuildCommit = \"${commit}\";
const bool kBuildDirty = ${dirty};
const char* const kBuildCompiler = \"${COMPILER}\";
const char* const kBuildFlags = \"${FLAGS}\";
const char* const kBuildCuda = \"${CUDA}\";

}  // namespace tessera
")
if(EXISTS ${OUTPUT})
  file(READ ${OUTPUT} before)
endif()
if(NOT "${before}" STREQUAL "${text}")
  file(WRITE ${OUTPUT} "${text}")
endif()
