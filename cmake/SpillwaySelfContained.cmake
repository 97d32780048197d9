# The parts of the library under the names the tree links them by, with all they
# are made of inside: headers only, or static libraries. So libspillway.so needs
# nothing that a machine may lack.

# As `make` does: a bare Debian 12 is given what it lacks, where that may be done.
execute_process(COMMAND "${PROJECT_SOURCE_DIR}/tools/bootstrap.sh" run
                RESULT_VARIABLE bootstrapped)
if(NOT bootstrapped EQUAL 0)
  message(FATAL_ERROR "packages to build with are missing; the lines above say which")
endif()

foreach(name IN ITEMS fmt::fmt spdlog::spdlog PkgConfig::tomlplusplus PkgConfig::xxhash
                      PkgConfig::liburing)
  add_library(${name} INTERFACE IMPORTED)
endforeach()
target_compile_definitions(fmt::fmt INTERFACE FMT_HEADER_ONLY=1)
target_compile_definitions(spdlog::spdlog INTERFACE SPDLOG_FMT_EXTERNAL=1)
target_link_libraries(spdlog::spdlog INTERFACE fmt::fmt)
target_compile_definitions(PkgConfig::tomlplusplus INTERFACE TOML_HEADER_ONLY=1)
foreach(name IN ITEMS xxhash uring)
  find_library(spillway_${name}_archive NAMES lib${name}.a REQUIRED)
endforeach()
target_link_libraries(PkgConfig::xxhash INTERFACE "${spillway_xxhash_archive}")
target_link_libraries(PkgConfig::liburing INTERFACE "${spillway_uring_archive}")
