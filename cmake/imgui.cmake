# assay_imgui: Dear ImGui 1.92 and ImPlot 1.0 from ASSAY_IMGUI_DIR (holds imgui/ and implot/), unmodified, with our own
# ui/imconfig.h in place of the one beside the sources. No demo windows, no warnings from foreign code.
find_library(ASSAY_GLFW glfw REQUIRED)
find_library(ASSAY_EGL EGL REQUIRED)
find_library(ASSAY_OPENGL OpenGL REQUIRED)
find_file(ASSAY_FALLBACK_FONT DejaVuSans.ttf PATHS /usr/share/fonts/truetype/dejavu /usr/share/fonts/dejavu REQUIRED)
set(ASSAY_FONT "${ASSAY_IMGUI_DIR}/imgui/misc/fonts/Roboto-Medium.ttf")
if(NOT EXISTS "${ASSAY_FONT}")
  message(FATAL_ERROR "ASSAY_IMGUI_DIR (${ASSAY_IMGUI_DIR}) holds no Dear ImGui sources; run cmake/setup.sh.")
endif()

set(imgui "${ASSAY_IMGUI_DIR}/imgui")
set(implot "${ASSAY_IMGUI_DIR}/implot")
add_library(assay_imgui STATIC
  ${imgui}/imgui.cpp ${imgui}/imgui_draw.cpp ${imgui}/imgui_tables.cpp ${imgui}/imgui_widgets.cpp
  ${imgui}/backends/imgui_impl_glfw.cpp ${imgui}/backends/imgui_impl_opengl3.cpp
  ${implot}/implot.cpp ${implot}/implot_items.cpp)
target_include_directories(assay_imgui SYSTEM PUBLIC ${imgui} ${imgui}/backends ${implot})
target_include_directories(assay_imgui PRIVATE "${PROJECT_SOURCE_DIR}")
target_compile_definitions(assay_imgui
  PUBLIC IMGUI_USER_CONFIG="ui/imconfig.h" IMGUI_DISABLE_INCLUDE_IMCONFIG_H
  # Each further numeric type costs 25 s of compile time and 100 MB of memory.
  PRIVATE "IMPLOT_CUSTOM_NUMERIC_TYPES=(double)")
target_compile_options(assay_imgui PRIVATE -w)
target_link_libraries(assay_imgui PUBLIC ${ASSAY_GLFW} ${ASSAY_OPENGL})
