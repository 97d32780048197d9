# SPDX-License-Identifier: Apache-2.0
# spillway and spillwayd with their parts inside, so that they need nothing but glibc and
# libstdc++: for the Python package, whose `pip install` gives working commands. main.cc is
# compiled as for the other programs; what the folders take from fmt, spdlog and toml++ comes from
# cmake/parts, and xxHash, liburing and zlib are static libraries.

find_library(spillway_z_archive NAMES libz.a)
if(NOT TARGET spillway_inside OR NOT spillway_z_archive)
  if(SPILLWAY_WHEEL)
    message(FATAL_ERROR "libz.a is not installed, and the Python package's programs take it along")
  endif()
  message(STATUS "No libz.a: no programs for the Python package")
  return()
endif()

# The folders under `folder` in the include table, itself first, whose sources are archives.
function(spillway_archives out folder)
  set(todo ${folder})
  set(seen "")
  while(todo)
    list(POP_FRONT todo name)
    if(name IN_LIST seen OR NOT TARGET ${name})
      continue()
    endif()
    list(APPEND seen ${name})
    get_target_property(links ${name} INTERFACE_LINK_LIBRARIES)
    list(FILTER links INCLUDE REGEX "^spillway_")
    list(APPEND todo ${links})
  endwhile()
  set(archives "")
  foreach(name IN LISTS seen)
    get_target_property(type ${name} TYPE)
    if(type STREQUAL "STATIC_LIBRARY")
      list(APPEND archives ${name})
    endif()
  endforeach()
  set(${out} ${archives} PARENT_SCOPE)
endfunction()

function(spillway_self_contained_program name folder)
  add_library(${name}_main OBJECT EXCLUDE_FROM_ALL "${PROJECT_SOURCE_DIR}/src/${folder}/main.cc")
  target_link_libraries(${name}_main PRIVATE spillway_flags spillway_${folder} CLI11::CLI11)
  spillway_archives(folders spillway_${folder})
  set(archives "")
  foreach(library IN LISTS folders)
    list(APPEND archives "$<TARGET_FILE:${library}>")
  endforeach()
  add_executable(${name}_program EXCLUDE_FROM_ALL
                 $<TARGET_OBJECTS:${name}_main> $<TARGET_OBJECTS:spillway_inside>)
  add_dependencies(${name}_program ${folders})
  set_target_properties(${name}_program PROPERTIES
    OUTPUT_NAME ${name} LINKER_LANGUAGE CXX
    RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/python/bin"
    LINK_DEPENDS "${archives}")
  # One group: the folders' own order, with the parts after them.
  target_link_libraries(${name}_program PRIVATE
    -Wl,--start-group ${archives} "${spillway_xxhash_archive}" "${spillway_uring_archive}"
    "${spillway_z_archive}" -Wl,--end-group Threads::Threads ${CMAKE_DL_LIBS})
  target_link_options(${name}_program PRIVATE -Wl,--as-needed -Wl,-s)
endfunction()

spillway_self_contained_program(spillway cli)
spillway_self_contained_program(spillwayd server)
target_sources(spillwayd_program PRIVATE $<TARGET_OBJECTS:spillway_dashboard_files>)
add_custom_target(spillway_programs
                  DEPENDS spillway_program spillwayd_program spillway_ask_library)
