# SPDX-License-Identifier: Apache-2.0
# spillway_folder(NAME [LINK folder...] [PARTS target...] [SAN_LATER])
#
# One folder of src/ as targets, from what lies in it:
#   *.cc             library    spillway_NAME          (main.cc is left to the caller)
#   testing/*.cc     library    spillway_NAME_testing  fakes; sees the fakes of LINK, too
#   *_test.cc        gtest      NAME_test              only with SPILLWAY_TESTS
# LINK names the folders it may include, PARTS the third-party targets it uses.
# SAN_LATER: its tests run under sanitizers in `make san`, not in `make test`.
# A folder without sources is an INTERFACE library; one without files has no
# target, is left out of LINK lists and of SPILLWAY_FOLDERS.
set_property(GLOBAL PROPERTY SPILLWAY_FOLDERS "")

function(spillway_folder name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "SAN_LATER" "" "LINK;PARTS")

  set(folder_dir "${PROJECT_SOURCE_DIR}/src/${name}")
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS "${folder_dir}/*.h")
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${folder_dir}/*.cc")
  if(NOT headers AND NOT sources)
    return()
  endif()
  set_property(GLOBAL APPEND PROPERTY SPILLWAY_FOLDERS ${name})

  set(fakes ${sources})
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "(_test\\.cc|/testing/[^/]*\\.cc|/main\\.cc)$")
  list(FILTER fakes INCLUDE REGEX "/testing/[^/]*\\.cc$")
  list(FILTER fakes EXCLUDE REGEX "_test\\.cc$")
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")

  set(links "")
  set(fake_links "")
  foreach(folder IN LISTS arg_LINK)
    if(TARGET spillway_${folder})
      list(APPEND links spillway_${folder})
      list(APPEND fake_links spillway_${folder}_testing)
    endif()
  endforeach()

  spillway_sources_library(spillway_${name} SOURCES ${sources} LINK ${links} ${arg_PARTS})
  set_property(TARGET spillway_${name} PROPERTY SPILLWAY_SOURCES "${sources}")
  set_property(TARGET spillway_${name} PROPERTY SPILLWAY_FAKES "${fakes}")
  set_property(TARGET spillway_${name} PROPERTY SPILLWAY_PARTS "${arg_PARTS}")

  if(SPILLWAY_TESTS)
    spillway_sources_library(spillway_${name}_testing SOURCES ${fakes}
                             LINK spillway_${name} ${fake_links} GTest::gmock)
    if(tests)
      spillway_gtest(${name}_test LABEL unit SOURCES ${tests}
                     LINK spillway_${name}_testing spillway_${name})
      if(NOT arg_SAN_LATER)
        set_property(TEST ${name}_test APPEND PROPERTY LABELS memory)
        add_dependencies(memory_tests ${name}_test)
      endif()
    endif()
  endif()
endfunction()

# spillway_sources_library(TARGET SOURCES... LINK...): a static library with
# the tree's flags and include paths, never built by `all` for its own sake.
function(spillway_sources_library target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LINK")
  set(scope INTERFACE)
  if(arg_SOURCES)
    set(scope PUBLIC)
    if(SPILLWAY_UNITY)
      spillway_unity(arg_SOURCES ${target} ${arg_SOURCES})
    endif()
    add_library(${target} STATIC EXCLUDE_FROM_ALL ${arg_SOURCES})
    target_link_libraries(${target} PRIVATE spillway_flags)
  else()
    add_library(${target} INTERFACE)
  endif()
  target_include_directories(${target} ${scope}
    "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/include" "${SPILLWAY_GENERATED_INCLUDE_DIR}")
  target_link_libraries(${target} ${scope} ${arg_LINK} Threads::Threads)
endfunction()

# Several sources of a library are compiled as one: nearly all of the time goes into
# the headers they share. So a name in an unnamed namespace is its whole folder's.
# Alone stay those that are compiled for other processors, all of them, and those that
# a fuzzer has an instrumented copy of (tests/CMakeLists.txt) and takes the rest of
# their folder from the library.
set(SPILLWAY_ALONE
  tier/hash_avx2.cc tier/hash_avx512.cc
  cache/settings.cc cache/settings_file.cc cache/stats_json.cc
  tier/disk/blob_header.cc tier/disk/codec.cc tier/disk/journal_format.cc)
list(TRANSFORM SPILLWAY_ALONE PREPEND "${PROJECT_SOURCE_DIR}/src/")

# spillway_unity(OUT TARGET SOURCE...): what to compile instead of the sources of
# TARGET. CMake's own way names files by where the tree lies, and then no two clones
# share a compiler cache.
function(spillway_unity out target)
  set(result "")
  set(batch "")
  set(count 0)
  foreach(source IN LISTS ARGN ITEMS last)
    if(source IN_LIST SPILLWAY_ALONE)
      list(APPEND result "${source}")
    elseif(NOT source STREQUAL "last")
      cmake_path(RELATIVE_PATH source BASE_DIRECTORY "${PROJECT_SOURCE_DIR}/src")
      string(APPEND batch "#include \"${source}\"\n")
      math(EXPR count "${count} + 1")
    endif()
    if(batch AND (source STREQUAL "last" OR count EQUAL 8))
      list(LENGTH result number)
      set(unit "${PROJECT_BINARY_DIR}/unity/${target}/${number}.cc")
      file(CONFIGURE OUTPUT "${unit}" CONTENT "${batch}" @ONLY)
      list(APPEND result "${unit}")
      set(batch "")
      set(count 0)
    endif()
  endforeach()
  set(${out} ${result} PARENT_SCOPE)
endfunction()
