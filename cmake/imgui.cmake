# assay_imgui: Dear ImGui 1.92 and ImPlot 1.0 from ASSAY_IMGUI_DIR (holds imgui/ and implot/), unmodified. The sources are
# staged into the build folder, because the imconfig.h beside them is not ours and cannot be switched off; ui/style/imconfig.h
# takes its place. No demo windows, no warnings from foreign code.
find_library(ASSAY_GLFW glfw REQUIRED)
find_library(ASSAY_EGL EGL REQUIRED)
find_library(ASSAY_OPENGL OpenGL REQUIRED)
find_file(ASSAY_FALLBACK_FONT DejaVuSans.ttf PATHS /usr/share/fonts/truetype/dejavu /usr/share/fonts/dejavu REQUIRED)
set(ASSAY_FONT "${ASSAY_IMGUI_DIR}/imgui/misc/fonts/Roboto-Medium.ttf")
if(NOT EXISTS "${ASSAY_FONT}")
  message(FATAL_ERROR "ASSAY_IMGUI_DIR (${ASSAY_IMGUI_DIR}) holds no Dear ImGui sources; run cmake/setup.sh.")
endif()

set(imgui "${CMAKE_BINARY_DIR}/imgui")
file(GLOB staged "${ASSAY_IMGUI_DIR}/imgui/*.h" "${ASSAY_IMGUI_DIR}/imgui/*.cpp" "${ASSAY_IMGUI_DIR}/implot/*.h"
  "${ASSAY_IMGUI_DIR}/implot/*.cpp" "${ASSAY_IMGUI_DIR}/imgui/backends/imgui_impl_glfw.*"
  "${ASSAY_IMGUI_DIR}/imgui/backends/imgui_impl_opengl3*")
list(FILTER staged EXCLUDE REGEX "imconfig\\.h$|_demo\\.cpp$")
file(COPY ${staged} DESTINATION "${imgui}")
configure_file("${PROJECT_SOURCE_DIR}/ui/style/imconfig.h" "${imgui}/imconfig.h" COPYONLY)

add_library(assay_imgui STATIC
  ${imgui}/imgui.cpp ${imgui}/imgui_draw.cpp ${imgui}/imgui_tables.cpp ${imgui}/imgui_widgets.cpp
  ${imgui}/imgui_impl_glfw.cpp ${imgui}/imgui_impl_opengl3.cpp ${imgui}/implot.cpp ${imgui}/implot_items.cpp)
target_include_directories(assay_imgui SYSTEM PUBLIC "${imgui}")
# Each further numeric type of ImPlot costs 25 s of compile time and 100 MB of memory.
target_compile_definitions(assay_imgui PRIVATE "IMPLOT_CUSTOM_NUMERIC_TYPES=(double)")
target_compile_options(assay_imgui PRIVATE -w)
target_link_libraries(assay_imgui PUBLIC ${ASSAY_GLFW} ${ASSAY_OPENGL})
