# SPDX-License-Identifier: Apache-2.0
#
# Installation: headers and both libraries.
install(TARGETS nibblas_shared nibblas_static)
install(DIRECTORY include/nibblas DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
