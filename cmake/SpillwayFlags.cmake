# SPDX-License-Identifier: Apache-2.0
# Compiler settings common to every target of this tree.

set(CMAKE_CXX_STANDARD 23)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 99)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)

set(CMAKE_POSITION_INDEPENDENT_CODE ON)  # Folders end up in a shared library, too.
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib")
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib")

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
# No NDEBUG: a broken invariant stops the program in every build.
set(CMAKE_CXX_FLAGS_RELEASE "-O2")
set(CMAKE_C_FLAGS_RELEASE "-O2")

find_program(SPILLWAY_CCACHE ccache)
if(SPILLWAY_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_C_COMPILER_LAUNCHER "${SPILLWAY_CCACHE}")
  set(CMAKE_CXX_COMPILER_LAUNCHER "${SPILLWAY_CCACHE}")
endif()

# `spillway_flags` carries the rest; every target of the tree links it PRIVATE.
add_library(spillway_flags INTERFACE)
target_compile_options(spillway_flags INTERFACE
  -ffp-contract=off  # Same seed, same events, in every build.
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wcast-align -Wformat=2 -Wundef
  $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor>
  $<$<COMPILE_LANGUAGE:CXX>:-Woverloaded-virtual>
  $<$<COMPILE_LANGUAGE:CXX>:-Wextra-semi>
  $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wthread-safety>
  # libstdc++ 12's own stable_sort uses what it calls deprecated.
  $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wno-deprecated-declarations>)
if(SPILLWAY_WERROR)
  target_compile_options(spillway_flags INTERFACE -Werror)
endif()
if(SPILLWAY_MUTANTS)
  target_compile_definitions(spillway_flags INTERFACE SPILLWAY_MUTANTS=1)
endif()
if(SPILLWAY_SANITIZE)
  set(sanitize -fsanitize=${SPILLWAY_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_compile_options(spillway_flags INTERFACE ${sanitize})
  target_link_options(spillway_flags INTERFACE ${sanitize})
endif()
if(SPILLWAY_COVERAGE)
  target_compile_options(spillway_flags INTERFACE --coverage -fprofile-update=atomic)
  target_link_options(spillway_flags INTERFACE --coverage)
endif()
