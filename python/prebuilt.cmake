# pip install . --config-settings=cmake.define.TESSERA_PREBUILT=$PWD/build-gpu: a wheel of the library
# and program that are in a build folder already, in seconds.
get_filename_component(prebuilt ${TESSERA_PREBUILT} ABSOLUTE)
if(NOT EXISTS ${prebuilt}/wheel/tessera)
  message(FATAL_ERROR "${prebuilt} has no wheel/tessera: build its target tessera_wheel first")
endif()
add_custom_target(tessera_wheel)
install(CODE "execute_process(COMMAND \"${CMAKE_COMMAND}\" --install \"${prebuilt}\" --component wheel
                                      --prefix \"\${CMAKE_INSTALL_PREFIX}\" COMMAND_ERROR_IS_FATAL ANY)"
        COMPONENT wheel)
