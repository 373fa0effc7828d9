# Writes OUTPUT, a source file that names the commit of SOURCE ("unknown" outside of a git clone). Run as a build step when
# HEAD moves: one small file is compiled again.
execute_process(COMMAND git -C "${SOURCE}" rev-parse --short=12 HEAD
  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed OR NOT commit MATCHES "^[0-9a-f]+$")
  set(commit unknown)
endif()
file(WRITE "${OUTPUT}" "#include \"app/assay/version.h\"\n\nconst char* const assay::cli::kCommit = \"${commit}\";\n")
