# SPDX-License-Identifier: Apache-2.0
# libspillway.so with its parts inside, so that it needs nothing but glibc and
# libstdc++: for the Python package, which takes it along. The objects are those
# of the library; what they take from fmt, spdlog and toml++ is compiled once
# from the headers (cmake/parts), xxHash and liburing come as static libraries.

foreach(name IN ITEMS xxhash uring)
  find_library(spillway_${name}_archive NAMES lib${name}.a)
  if(NOT spillway_${name}_archive)
    if(SPILLWAY_WHEEL)
      message(FATAL_ERROR "lib${name}.a is not installed, and the Python package takes it along")
    endif()
    message(STATUS "No lib${name}.a: no library for the Python package")
    return()
  endif()
endforeach()
file(GLOB part_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/cmake/parts/*.cc")
add_library(spillway_inside OBJECT EXCLUDE_FROM_ALL ${part_sources})
target_compile_options(spillway_inside PRIVATE -w)  # Others' code.

add_library(spillway_self_contained SHARED EXCLUDE_FROM_ALL ${objects}
            $<TARGET_OBJECTS:spillway_inside>)
set_target_properties(spillway_self_contained PROPERTIES
  OUTPUT_NAME spillway
  LINKER_LANGUAGE CXX
  LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/python/spillway/_lib"
  VERSION ${PROJECT_VERSION}
  SOVERSION ${PROJECT_VERSION_MAJOR}
  LINK_DEPENDS "${version_script}")
target_link_libraries(spillway_self_contained PRIVATE
  $<BUILD_INTERFACE:spillway_flags> "${spillway_xxhash_archive}" "${spillway_uring_archive}"
  Threads::Threads ${CMAKE_DL_LIBS})
target_link_options(spillway_self_contained PRIVATE
  "-Wl,--version-script=${version_script}" -Wl,--as-needed -Wl,--no-undefined -Wl,-s)
