# Compiler settings that must stand before project().
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1")  # with asserts
add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-ffile-prefix-map=${CMAKE_SOURCE_DIR}=.>")
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")

find_program(ASSAY_CCACHE ccache)
if(ASSAY_CCACHE)
  # The precompiled header and unpacked wheels carry fresh time stamps on every machine. Paths under the source folder
  # count relative to the build folder, so that another clone of the same tree finds its objects.
  set(launcher "${CMAKE_COMMAND}" -E env "CCACHE_BASEDIR=${CMAKE_SOURCE_DIR}" CCACHE_NOHASHDIR=1
    "CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime" "${ASSAY_CCACHE}")
  set(CMAKE_CXX_COMPILER_LAUNCHER "${launcher}")
  set(CMAKE_CUDA_COMPILER_LAUNCHER "${launcher}")
endif()

if(NOT ASSAY_VIEWER_ONLY)
  set(CMAKE_CUDA_COMPILER "${ASSAY_NVCC}")
  set(CMAKE_CUDA_STANDARD 17)
  # All: machine code for Ampere, Hopper and Blackwell; PTX of the newest for what follows. Else a first build that ends soon.
  option(ASSAY_ALL_GPUS "machine code for every GPU that is supported" ON)
  if(ASSAY_ALL_GPUS)
    set(CMAKE_CUDA_ARCHITECTURES "80-real;90-real;100-real;100-virtual")
  else()
    include("${CMAKE_CURRENT_LIST_DIR}/gpu_architectures.cmake")
    assay_gpu_architectures(CMAKE_CUDA_ARCHITECTURES "${ASSAY_NVCC}")
  endif()
  set(CMAKE_CUDA_FLAGS_RELEASE "-O2 -lineinfo")
  set(CMAKE_CUDA_RUNTIME_LIBRARY None)  # assay::cudart names the one that LibTorch loads
endif()
