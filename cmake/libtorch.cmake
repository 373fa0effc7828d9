# assay::torch: LibTorch from the unpacked PyPI wheels as our own imported targets. The wheel's find_package(Torch)
# demands a whole CUDA toolkit and overrides CMAKE_CUDA_ARCHITECTURES (docs/decisions.md).
enable_language(CUDA)

set(torch_dir "${ASSAY_LIBTORCH_DIR}/torch")
set(cuda_dir "${ASSAY_LIBTORCH_DIR}/nvidia/cu13")

# Headers alone: for code that takes its functions from libraries loaded at run time (CUPTI, NVTX).
add_library(assay_cuda_headers INTERFACE)
add_library(assay::cuda_headers ALIAS assay_cuda_headers)
# The runtime's headers include crt/, which comes with the compiler.
target_include_directories(assay_cuda_headers SYSTEM INTERFACE
  "${cuda_dir}/include" ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES})

add_library(assay_cudart INTERFACE)
add_library(assay::cudart ALIAS assay_cudart)
target_link_libraries(assay_cudart INTERFACE assay::cuda_headers "${cuda_dir}/lib/libcudart.so.13")

# cuDNN and what its front end calls: LibTorch's own libraries, which load without a GPU too.
add_library(assay_cudnn INTERFACE)
add_library(assay::cudnn ALIAS assay_cudnn)
target_include_directories(assay_cudnn SYSTEM INTERFACE
  "${ASSAY_CUDNN_FRONTEND_DIR}/include" "${ASSAY_LIBTORCH_DIR}/nvidia/cudnn/include")
target_link_libraries(assay_cudnn INTERFACE assay::cudart
  "${ASSAY_LIBTORCH_DIR}/nvidia/cudnn/lib/libcudnn.so.9" "${cuda_dir}/lib/libnvrtc.so.13")

# LibTorch's own cuBLASLt, which loads without a GPU too.
add_library(assay_cublaslt INTERFACE)
add_library(assay::cublaslt ALIAS assay_cublaslt)
target_link_libraries(assay_cublaslt INTERFACE assay::cudart "${cuda_dir}/lib/libcublasLt.so.13")

add_library(assay_torch INTERFACE)
add_library(assay::torch ALIAS assay_torch)
target_include_directories(assay_torch SYSTEM INTERFACE
  "${torch_dir}/include" "${torch_dir}/include/torch/csrc/api/include" "${ASSAY_LIBTORCH_DIR}/nvidia/nccl/include")
# LibTorch's folder carries its own newer {fmt} headers, found before Debian's; its compiled part is not exported.
target_compile_definitions(assay_torch INTERFACE FMT_HEADER_ONLY=1)
# torch_cuda registers its kernels by static initialisation: keep it although no symbol of ours may need it.
# stdc++ comes first: libtorch.so exports a std::filesystem of its own that crashes, and the first library wins.
target_link_libraries(assay_torch INTERFACE
  stdc++ -Wl,--no-as-needed "${torch_dir}/lib/libtorch.so" "${torch_dir}/lib/libtorch_cuda.so" -Wl,--as-needed
  "${torch_dir}/lib/libtorch_cpu.so" "${torch_dir}/lib/libc10.so" "${torch_dir}/lib/libc10_cuda.so" assay::cudart)
# The wheels' libraries find each other by their own run paths; the linker need not resolve them again.
target_link_options(assay_torch INTERFACE -Wl,--allow-shlib-undefined)

# One shared precompiled header for everything that includes LibTorch: 14 s instead of 39 s a file on one core.
add_library(assay_torch_headers OBJECT "${PROJECT_SOURCE_DIR}/cmake/torch_headers.cpp")
target_link_libraries(assay_torch_headers PRIVATE assay::torch assay_warnings)
target_include_directories(assay_torch_headers PRIVATE "${PROJECT_SOURCE_DIR}")
target_precompile_headers(assay_torch_headers PRIVATE "${PROJECT_SOURCE_DIR}/model/torch_pch.h")

function(assay_use_torch_headers target)
  target_precompile_headers(${target} REUSE_FROM assay_torch_headers)
endfunction()
