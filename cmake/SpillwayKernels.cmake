# SPDX-License-Identifier: Apache-2.0
# The GPU kernels as a header: src/device/gpu/kernels.ptx is data, and one string of
# the program that loads it.

set(kernels "${PROJECT_SOURCE_DIR}/src/device/gpu/kernels.ptx")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${kernels}")
file(READ "${kernels}" SPILLWAY_KERNELS_PTX)
configure_file("${PROJECT_SOURCE_DIR}/cmake/kernels_ptx.h.in"
               "${SPILLWAY_GENERATED_INCLUDE_DIR}/device/gpu/kernels_ptx.h" @ONLY)
