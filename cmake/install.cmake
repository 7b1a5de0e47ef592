# SPDX-License-Identifier: Apache-2.0
#
# Installation: headers, both libraries, manual page, pkg-config and CMake package files; and the
# exported interface of the shared library, which is the checked-in list and nothing else.
include(CMakePackageConfigHelpers)

# The linker hides all that is not on the list, the entries of built-in backends among it.
set(NIB_EXPORTS ${PROJECT_SOURCE_DIR}/include/nibblas/exports.txt)
file(STRINGS ${NIB_EXPORTS} symbols REGEX "^nib_")
list(JOIN symbols ";\n        " symbols)
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/nibblas.map
    CONTENT "{\n    global:\n        ${symbols};\n    local: *;\n};\n" @ONLY)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${NIB_EXPORTS})
target_link_options(nibblas_shared PRIVATE
    -Wl,--version-script=${CMAKE_BINARY_DIR}/generated/nibblas.map)
set_property(TARGET nibblas_shared APPEND PROPERTY LINK_DEPENDS
    ${CMAKE_BINARY_DIR}/generated/nibblas.map)

install(TARGETS nibblas_shared nibblas_static EXPORT nibblas)
install(DIRECTORY include/nibblas DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(FILES docs/nib.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

# Paths in the package files are relative to the files themselves, so that a prefix may move.
set(folder ${CMAKE_INSTALL_LIBDIR}/cmake/nibblas)
install(EXPORT nibblas NAMESPACE nibblas:: FILE nibblasTargets.cmake DESTINATION ${folder})
configure_package_config_file(cmake/nibblasConfig.cmake.in ${CMAKE_BINARY_DIR}/generated/nibblasConfig.cmake
    INSTALL_DESTINATION ${folder})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/generated/nibblasConfigVersion.cmake
    COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/generated/nibblasConfig.cmake
    ${CMAKE_BINARY_DIR}/generated/nibblasConfigVersion.cmake DESTINATION ${folder})

file(RELATIVE_PATH NIB_PC_PREFIX /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
configure_file(cmake/nibblas.pc.in ${CMAKE_BINARY_DIR}/generated/nibblas.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/generated/nibblas.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
