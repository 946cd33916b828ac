# tessera::spmm for find_package(tessera): the static library, its headers, what it needs.
#
# All of the library is linked, asked for or not: kernels and formats register themselves, and
# nobody refers to them by anything but their names.
include(CMakeFindDependencyMacro)
find_dependency(fmt)
find_dependency(Threads)
find_dependency(CUDAToolkit)
find_library(TESSERA_XXHASH xxhash REQUIRED)

get_filename_component(tessera_root "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
if(NOT TARGET tessera::spmm)
  add_library(tessera::spmm INTERFACE IMPORTED)
  target_include_directories(tessera::spmm INTERFACE "${tessera_root}/include/tessera")
  target_compile_features(tessera::spmm INTERFACE cxx_std_20)
  target_link_libraries(tessera::spmm INTERFACE
    -Wl,--whole-archive "${tessera_root}/lib/libtessera_spmm.a" -Wl,--no-whole-archive
    fmt::fmt Threads::Threads CUDA::cudart_static "${TESSERA_XXHASH}" ${CMAKE_DL_LIBS})
endif()
