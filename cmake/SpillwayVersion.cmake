# SPDX-License-Identifier: Apache-2.0
# Writes spillway/version.h, the only header of include/spillway that is
# generated: it is installed beside the others.

set(SPILLWAY_GENERATED_INCLUDE_DIR "${PROJECT_BINARY_DIR}/generated")
configure_file("${PROJECT_SOURCE_DIR}/cmake/version.h.in"
               "${SPILLWAY_GENERATED_INCLUDE_DIR}/spillway/version.h" @ONLY)
