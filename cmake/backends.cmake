# SPDX-License-Identifier: Apache-2.0
#
# Built-in backends. Each folder backends/<name> has a CMakeLists.txt that calls nib_add_backend; the
# list that core/registry reads is generated from what they say.

# nib_add_backend(NAME name SOURCES file... [OPTIONS flag...] [LINK library...])
# Compiles a backend into the libraries. Per-file flags: set_source_files_properties as usual.
function(nib_add_backend)
    cmake_parse_arguments(B "" "NAME" "SOURCES;OPTIONS;LINK" ${ARGN})
    add_library(nib_backend_${B_NAME} OBJECT ${B_SOURCES})
    target_include_directories(nib_backend_${B_NAME} PRIVATE ${PROJECT_SOURCE_DIR}/include
        ${CMAKE_CURRENT_SOURCE_DIR} ${CMAKE_CURRENT_BINARY_DIR})
    target_compile_options(nib_backend_${B_NAME} PRIVATE ${B_OPTIONS})
    target_link_libraries(nib_backend_${B_NAME} PRIVATE nib_flags ${B_LINK})
    target_compile_definitions(nib_backend_${B_NAME} PRIVATE
        nib_backend_entry=nib_backend_entry_${B_NAME})
    set_property(GLOBAL APPEND PROPERTY NIB_BACKEND_NAMES ${B_NAME})
endfunction()

if(NIB_BACKENDS)
    set(folders ${NIB_BACKENDS})
else()
    file(GLOB folders RELATIVE ${PROJECT_SOURCE_DIR}/backends CONFIGURE_DEPENDS backends/*/CMakeLists.txt)
    list(TRANSFORM folders REPLACE "/CMakeLists.txt" "")
endif()
foreach(folder ${folders})
    add_subdirectory(backends/${folder})
endforeach()

get_property(names GLOBAL PROPERTY NIB_BACKEND_NAMES)
set(NIB_BACKEND_OBJECTS "")
set(NIB_BUILTIN_LIST "")
foreach(name ${names})
    list(APPEND NIB_BACKEND_OBJECTS $<TARGET_OBJECTS:nib_backend_${name}>)
    string(APPEND NIB_BUILTIN_LIST "NIB_BUILTIN(${name})\n")
endforeach()
file(CONFIGURE OUTPUT generated/nib_builtin.inc CONTENT "@NIB_BUILTIN_LIST@" @ONLY)
