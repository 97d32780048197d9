# SPDX-License-Identifier: Apache-2.0
# spillway_dashboard(TARGET): an object library with web/, built by npm. Nothing is built
# again while web/ stays as it is; without npm there is a plain page instead.
function(spillway_dashboard target)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/web/*")
  list(FILTER sources EXCLUDE REGEX "/(node_modules|dist)/")
  set(script "${PROJECT_SOURCE_DIR}/tools/web_build.sh")
  set(made "${SPILLWAY_GENERATED_INCLUDE_DIR}/dashboard_files.cc")
  add_custom_command(OUTPUT "${made}" COMMAND "${script}" "${made}"
    DEPENDS ${sources} "${script}" COMMENT "Building the dashboard" VERBATIM)
  add_library(${target} OBJECT EXCLUDE_FROM_ALL "${made}")
  target_link_libraries(${target} PRIVATE spillway_flags spillway_server)
endfunction()
