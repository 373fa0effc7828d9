# Shared target settings: warnings and sanitizers for our code only; third-party headers are SYSTEM.
add_library(assay_warnings INTERFACE)
target_compile_options(assay_warnings INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wconversion -Werror>)
# Clang, which builds with sanitizers, sees a shadow where a neighbour in a unity build has the name of a variable.
if(NOT ASSAY_SANITIZE)
  target_compile_options(assay_warnings INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wshadow>)
endif()
target_link_options(assay_warnings INTERFACE -Wl,--build-id=sha1)
if(ASSAY_SANITIZE)
  target_compile_options(assay_warnings INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${ASSAY_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=undefined>)
  target_link_options(assay_warnings INTERFACE -fsanitize=${ASSAY_SANITIZE})
endif()

# With ASSAY_UNITY a compiler call takes eight files, and each header once for all of them. Names in unnamed namespaces
# must then be unique among neighbours; a class of the main file may still use such a type.
function(assay_unity target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${ASSAY_UNITY} UNITY_BUILD_BATCH_SIZE 8)
  if(ASSAY_UNITY)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
  endif()
endfunction()

# assay_library(core FILES a.cpp b.cpp LINKS x y): target assay_core, alias assay::core.
function(assay_library name)
  cmake_parse_arguments(ARG "" "" "FILES;LINKS" ${ARGN})
  add_library(assay_${name} STATIC ${ARG_FILES})
  add_library(assay::${name} ALIAS assay_${name})
  target_include_directories(assay_${name} PUBLIC "${PROJECT_SOURCE_DIR}")
  target_link_libraries(assay_${name} PUBLIC ${ARG_LINKS} PRIVATE assay_warnings)
  assay_unity(assay_${name})
endfunction()

# assay_program(assay FILES … LINKS …): an executable in build/bin.
function(assay_program name)
  cmake_parse_arguments(ARG "" "" "FILES;LINKS" ${ARGN})
  add_executable(${name} ${ARG_FILES})
  target_link_libraries(${name} PRIVATE ${ARG_LINKS} assay_warnings)
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}")
endfunction()

# assay_test(tests_core FILES … LINKS … [WHOLE] [PLAIN]): a GoogleTest program. Its cases are single CTest tests, except
# with WHOLE (programs that load LibTorch take a second to start): one CTest test for the program. Its sources share a
# precompiled header and are little optimized, which halves the time to build them; with PLAIN they are compiled as
# the product is: those that use LibTorch's header, or compute long.
function(assay_test name)
  cmake_parse_arguments(ARG "WHOLE;PLAIN" "" "FILES;LINKS;LABELS" ${ARGN})
  assay_program(${name} FILES ${ARG_FILES} LINKS ${ARG_LINKS} tests_paths GTest::gtest_main GTest::gmock)
  assay_unity(${name})
  if(NOT ARG_PLAIN)
    target_precompile_headers(${name} PRIVATE "${PROJECT_SOURCE_DIR}/tests/test_pch.h")
    target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1> $<$<CONFIG:Sanitize>:-O0>)
  endif()
  if(NOT ARG_LABELS)
    set(ARG_LABELS fast)
  endif()
  if(ARG_WHOLE)
    add_test(NAME ${name} COMMAND ${name})
    set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT 600 PROCESSORS 2)
  else()
    gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT 300)
  endif()
endfunction()
