# SPDX-License-Identifier: Apache-2.0
# The installed library: the objects of the folders below, once as
# libspillway.so.0 and once as libspillway.a. Nothing of fmt, xxHash and the
# like shows in the shared library's interface: users need the standard library
# and our headers only.

include(CMakePackageConfigHelpers)

set(SPILLWAY_LIBRARY_FOLDERS base device graph policy wire ask monitor tier cache capi)

set(objects "")
set(parts "")
foreach(folder IN LISTS SPILLWAY_LIBRARY_FOLDERS)
  if(TARGET spillway_${folder})
    get_target_property(sources spillway_${folder} SPILLWAY_SOURCES)
    get_target_property(folder_parts spillway_${folder} SPILLWAY_PARTS)
    list(APPEND parts ${folder_parts})
    if(sources)
      list(APPEND objects $<TARGET_OBJECTS:spillway_${folder}>)
    endif()
  endif()
endforeach()
list(REMOVE_DUPLICATES parts)

if(NOT objects)
  message(STATUS "No library sources yet: no libspillway")
  return()
endif()

function(spillway_installed_library target type export_name)
  add_library(${target} ${type} ${objects})
  set_target_properties(${target} PROPERTIES
    OUTPUT_NAME spillway
    EXPORT_NAME ${export_name}
    LINKER_LANGUAGE CXX
    VERSION ${PROJECT_VERSION}
    SOVERSION ${PROJECT_VERSION_MAJOR})
  target_include_directories(${target} INTERFACE
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
    $<BUILD_INTERFACE:${SPILLWAY_GENERATED_INCLUDE_DIR}>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(${target} INTERFACE cxx_std_17)
  add_library(spillway::${export_name} ALIAS ${target})
endfunction()

spillway_installed_library(spillway SHARED spillway)
target_link_libraries(spillway PRIVATE $<BUILD_INTERFACE:spillway_flags> ${parts} Threads::Threads)
set(version_script "${PROJECT_SOURCE_DIR}/cmake/exports.map")
target_link_options(spillway PRIVATE "-Wl,--version-script=${version_script}" -Wl,--as-needed)
if(NOT SPILLWAY_SANITIZE)  # Sanitizers are defined by the program that loads it.
  target_link_options(spillway PRIVATE -Wl,--no-undefined)
endif()
set_property(TARGET spillway PROPERTY LINK_DEPENDS "${version_script}")

if(NOT SPILLWAY_SANITIZE AND NOT SPILLWAY_COVERAGE)
  include(SpillwaySelfContained)
  include(SpillwayPrograms)
endif()
if(SPILLWAY_WHEEL)
  install(FILES $<TARGET_FILE:spillway_self_contained> DESTINATION spillway/_lib
          RENAME libspillway.so.0 COMPONENT python)
  # In the environment's own bin: the commands work as soon as the package is installed.
  install(PROGRAMS $<TARGET_FILE:spillway_program> $<TARGET_FILE:spillwayd_program>
          DESTINATION "${SKBUILD_SCRIPTS_DIR}" COMPONENT python)
  # Beside that bin, where `spillway run` looks.
  install(FILES $<TARGET_FILE:spillway_ask_library> DESTINATION "${SKBUILD_DATA_DIR}/lib/spillway"
          COMPONENT python)
  return()
endif()

# A static library can't hide what it needs: whoever links it links these, too.
spillway_installed_library(spillway_static STATIC static)
target_link_libraries(spillway_static
  PRIVATE $<BUILD_INTERFACE:spillway_flags>
  PUBLIC Threads::Threads
  INTERFACE "$<BUILD_INTERFACE:${parts}>"
            $<INSTALL_INTERFACE:$<LINK_ONLY:spdlog::spdlog>>
            $<INSTALL_INTERFACE:$<LINK_ONLY:fmt::fmt>>
            "$<INSTALL_INTERFACE:xxhash;tomlplusplus;uring;${CMAKE_DL_LIBS}>")

# Install rules: programs, libraries, headers, CMake package, pkg-config file.

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/spillway")
install(TARGETS spillway EXPORT spillwayTargets)
install(TARGETS spillway_static EXPORT spillwayStaticTargets)
if(TARGET spillway_bin)
  install(TARGETS spillway_bin)
endif()
if(TARGET spillway_ask_library)
  install(TARGETS spillway_ask_library DESTINATION "${CMAKE_INSTALL_LIBDIR}/spillway")
endif()
if(TARGET spillwayd_bin)
  install(TARGETS spillwayd_bin)
  install(FILES "${PROJECT_SOURCE_DIR}/tools/spillwayd.service"
          DESTINATION "${CMAKE_INSTALL_DATADIR}/spillway")
endif()
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/spillway" "${SPILLWAY_GENERATED_INCLUDE_DIR}/spillway"
        DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" FILES_MATCHING PATTERN "*.h")
install(EXPORT spillwayTargets NAMESPACE spillway:: DESTINATION "${package_dir}")
install(EXPORT spillwayStaticTargets NAMESPACE spillway:: DESTINATION "${package_dir}")

configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/spillwayConfig.cmake.in"
                              "${PROJECT_BINARY_DIR}/spillwayConfig.cmake"
                              INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/spillwayConfigVersion.cmake"
                                 COMPATIBILITY SameMinorVersion)
cmake_path(RELATIVE_PATH CMAKE_INSTALL_FULL_INCLUDEDIR
           BASE_DIRECTORY "${CMAKE_INSTALL_FULL_LIBDIR}" OUTPUT_VARIABLE includedir_from_libdir)
configure_file("${PROJECT_SOURCE_DIR}/cmake/spillway.pc.in" "${PROJECT_BINARY_DIR}/spillway.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/spillwayConfig.cmake"
              "${PROJECT_BINARY_DIR}/spillwayConfigVersion.cmake"
        DESTINATION "${package_dir}")
install(FILES "${PROJECT_BINARY_DIR}/spillway.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}")
