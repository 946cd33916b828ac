// TESSERA_VECTOR_CLONES in front of a function compiles it once for each vector width of x86; the
// loader selects the widest that the machine has.
//
// The levels name features. The name of a processor, such as arch=haswell, would exclude the
// processors of other makers. Sanitizers start before the loader selects, other processors have no
// such levels, and Clang has no "#pragma GCC target": there the function is compiled once, and
// TESSERA_VECTOR_LEVELS, for code that is written once per level, is 0.
#pragma once

#if !defined(__x86_64__) || defined(__clang__) || defined(__SANITIZE_ADDRESS__) || \
    defined(__SANITIZE_THREAD__)
#define TESSERA_VECTOR_LEVELS 0
#define TESSERA_VECTOR_CLONES
#else
#define TESSERA_VECTOR_LEVELS 1
#define TESSERA_VECTOR_CLONES \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#endif
