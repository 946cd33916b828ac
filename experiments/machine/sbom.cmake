# Part of `cmake --install`: the bill of materials of what was installed (sbom.py beside this file).
# The folder may have held other files before, so the list is that of this installation.
cmake_path(ABSOLUTE_PATH CMAKE_INSTALL_PREFIX NORMALIZE OUTPUT_VARIABLE prefix)
set(installed "")
foreach(file ${CMAKE_INSTALL_MANIFEST_FILES})
  cmake_path(ABSOLUTE_PATH file NORMALIZE)
  cmake_path(RELATIVE_PATH file BASE_DIRECTORY ${prefix})
  string(APPEND installed "${file}\n")
endforeach()
file(WRITE ${list} "${installed}")
find_program(python NAMES python3 PATHS /usr/bin NO_DEFAULT_PATH)
find_program(python NAMES python3 REQUIRED)
message(STATUS "Installing: $ENV{DESTDIR}${prefix}/share/tessera/sbom.json")
execute_process(COMMAND ${python} -B ${CMAKE_CURRENT_LIST_DIR}/sbom.py $ENV{DESTDIR}${prefix}
                        --files ${list} --version ${version} --cuda=${cuda} ${toolkit}
                COMMAND_ERROR_IS_FATAL ANY)
