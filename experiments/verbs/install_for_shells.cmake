# Part of `cmake --install`: manual pages and the completion of bash, zsh and fish, written by the
# program that was built, to the folders in which man and the shells look.
cmake_path(ABSOLUTE_PATH CMAKE_INSTALL_PREFIX NORMALIZE OUTPUT_VARIABLE prefix)
set(share $ENV{DESTDIR}${prefix}/share)
foreach(target bash:bash-completion/completions/tessera zsh:zsh/site-functions/_tessera
               fish:fish/vendor_completions.d/tessera.fish)
  string(REGEX REPLACE ":.*" "" shell ${target})
  string(REGEX REPLACE ".*:" "" file ${target})
  message(STATUS "Installing: ${share}/${file}")
  execute_process(COMMAND ${program} complete ${shell} OUTPUT_VARIABLE script
                  COMMAND_ERROR_IS_FATAL ANY)
  file(WRITE ${share}/${file} "${script}")
endforeach()
message(STATUS "Installing: ${share}/man/man1/tessera*.1")
execute_process(COMMAND ${program} man --out ${share}/man/man1 COMMAND_ERROR_IS_FATAL ANY)
