# assay_gpu_architectures(RESULT NVCC): what CUDA code of a first build is compiled for. Machine code for the GPUs of this
# machine that our kernels support; where there is none, PTX, which a driver compiles when it loads a kernel: for 9.0 and later
# apart, since kernels are launched there before the one ahead of them has ended, and wait for it in code that 8.0 has not.
# CMake's own "native" takes boards that are too old, and stops where the driver is.
function(assay_gpu_architectures result nvcc)
  execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader OUTPUT_VARIABLE boards ERROR_QUIET)
  execute_process(COMMAND "${nvcc}" --list-gpu-code OUTPUT_VARIABLE known)
  string(REGEX MATCHALL "[0-9]+[.][0-9]" boards "${boards}")
  set(architectures "")
  foreach(board IN LISTS boards)
    string(REPLACE "." "" board "${board}")
    if(board GREATER_EQUAL 80 AND known MATCHES "sm_${board}[^0-9]")
      list(APPEND architectures "${board}-real")
    endif()
  endforeach()
  list(REMOVE_DUPLICATES architectures)
  if(NOT architectures)
    set(architectures 80-virtual 90-virtual)
  endif()
  set(${result} "${architectures}" PARENT_SCOPE)
endfunction()

if(CMAKE_SCRIPT_MODE_FILE STREQUAL CMAKE_CURRENT_LIST_FILE)
  assay_gpu_architectures(architectures "${NVCC}")
  message("${architectures}")
endif()
