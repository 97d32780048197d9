# spillway_dashboard(TARGET): web/, built by npm, as a source of the target. Nothing is
# built again while web/ stays as it is; without npm there is a plain page instead.
function(spillway_dashboard target)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/web/*")
  list(FILTER sources EXCLUDE REGEX "/(node_modules|dist)/")
  set(script "${PROJECT_SOURCE_DIR}/tools/web_build.sh")
  set(made "${SPILLWAY_GENERATED_INCLUDE_DIR}/dashboard_files.cc")
  add_custom_command(OUTPUT "${made}" COMMAND "${script}" "${made}"
    DEPENDS ${sources} "${script}" COMMENT "Building the dashboard" VERBATIM)
  target_sources(${target} PRIVATE "${made}")
endfunction()
