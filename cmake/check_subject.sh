#!/usr/bin/env bash
# Fails if the subject of a commit message has more than 72 characters, or a semicolon, which joins two topics:
# check_subject.sh MESSAGE_FILE
set -euo pipefail
subject=$(grep -v '^#' "$1" | head -1)
[ ${#subject} -le 72 ] || { echo "the subject has ${#subject} characters, at most 72: $subject" >&2; exit 1; }
[[ $subject != *\;* ]] || { echo "the subject names two topics; make a commit of each: $subject" >&2; exit 1; }
