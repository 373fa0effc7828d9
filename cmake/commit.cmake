# Writes OUTPUT, a source file that names the commit of SOURCE and its date ("unknown", "" outside of a git clone). Run as a build step when
# HEAD moves: one small file is compiled again.
execute_process(COMMAND git -C "${SOURCE}" rev-parse --short=12 HEAD
  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed OR NOT commit MATCHES "^[0-9a-f]+$")
  set(commit unknown)
endif()
execute_process(COMMAND git -C "${SOURCE}" log -1 --format=%cs
  OUTPUT_VARIABLE date OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed OR NOT date MATCHES "^[0-9-]+$")
  set(date)
endif()
file(WRITE "${OUTPUT}" "#include \"app/assay/version.h\"\n\nconst char* const assay::cli::kCommit = \"${commit}\";\nconst char* const assay::cli::kCommitDate = \"${date}\";\n")
