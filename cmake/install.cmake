# make install PREFIX=…: programs, matrices, claims, completion scripts and man page. The worker keeps the LibTorch path recorded at build time.
include(GNUInstallDirs)
set(programs assay assay-view)
if(NOT ASSAY_VIEWER_ONLY)
  list(APPEND programs assay-worker)
  set_target_properties(assay-worker PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
endif()
install(TARGETS ${programs} RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
if(NOT ASSAY_VIEWER_ONLY)
  install(TARGETS assay-parquet LIBRARY DESTINATION "${CMAKE_INSTALL_BINDIR}") # beside the worker that loads it
endif()
install(DIRECTORY experiments/matrices experiments/claims DESTINATION "${CMAKE_INSTALL_DATADIR}/assay")
install(FILES LICENSE README.md DESTINATION "${CMAKE_INSTALL_DOCDIR}")

# Completion scripts and the man page, printed by the program itself.
foreach(page "completion bash|${CMAKE_INSTALL_DATADIR}/bash-completion/completions/assay"
    "completion zsh|${CMAKE_INSTALL_DATADIR}/zsh/site-functions/_assay"
    "completion fish|${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d/assay.fish"
    "help --man|${CMAKE_INSTALL_MANDIR}/man1/assay.1")
  string(REGEX MATCH "^([^|]*)\\|(.*)$" ignored "${page}")
  set(target "${CMAKE_MATCH_2}")
  set(arguments "${CMAKE_MATCH_1}") # two plain words
  install(CODE "
    set(target \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${target}\")
    get_filename_component(folder \"\${target}\" DIRECTORY)
    file(MAKE_DIRECTORY \"\${folder}\")
    execute_process(COMMAND \"${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/assay\" ${arguments} OUTPUT_FILE \"\${target}\" RESULT_VARIABLE failed)
    if(failed)
      message(FATAL_ERROR \"assay ${arguments} failed: \${failed}\")
    endif()
    message(STATUS \"Installing: \${target}\")")
endforeach()
