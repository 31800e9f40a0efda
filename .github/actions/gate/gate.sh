#!/usr/bin/env bash
# The action's last step: makes a command line of its inputs, which are variables here,
# and runs it. servebench itself writes the annotation, the step summary and the
# outputs verdict and reason.
set -eu
refuse() {
  echo "::error title=servebench gate::$1"
  echo "exit-code=2" >> "$GITHUB_OUTPUT"
  exit 2
}
args=()
# add FLAG VALUE INPUT MODE...: gives a flag where its input is set, and refuses one that
# is for another mode.
add() {
  [ -n "$2" ] || return 0
  for mode in "${@:4}"; do
    if [ "$mode" = "$MODE" ]; then
      args+=("$1=$2")
      return
    fi
  done
  refuse "mode $MODE does not take $3"
}
case $MODE in
paired | history | file | absolute) ;;
*) refuse "mode: $MODE; want paired, history, file or absolute" ;;
esac
case $ON_INCONCLUSIVE in
fail | warn) ;;
*) refuse "on-inconclusive: $ON_INCONCLUSIVE; want fail or warn" ;;
esac
add --baseline-url "$BASELINE_URL" baseline-url paired
add --candidate-url "$CANDIDATE_URL" candidate-url paired
add --baseline-command "$BASELINE_COMMAND" baseline-command paired
add --candidate-command "$CANDIDATE_COMMAND" candidate-command paired
add --pairs "$PAIRS" pairs paired
add --result "$RESULT" result history file absolute
add --history "$HISTORY" history history
add --baseline "$BASELINE" baseline file
case $MODE in
history) [ -n "$HISTORY" ] || refuse "mode history: history is missing" ;;
file) [ -n "$BASELINE" ] || refuse "mode file: baseline is missing" ;;
absolute) [ -n "$REQUIRE" ] || refuse "mode absolute: require is missing" ;;
esac
while IFS= read -r line; do
  # Leading and trailing blanks are YAML's, not the rule's.
  line=${line#"${line%%[![:space:]]*}"}
  [ -z "$line" ] || args+=("--require=$line")
done <<< "$REQUIRE"
if [ -n "${ARGS//[[:space:]]/}" ]; then
  words=$(mktemp)
  printf '%s\n' "$ARGS" | xargs printf '%s\0' > "$words" || refuse "args: want words, and quotes in pairs"
  while IFS= read -r -d '' word; do args+=("$word"); done < "$words"
  rm "$words"
fi
if [ -n "$VERDICT" ]; then
  stem=${VERDICT%.json}
  mkdir -p "$(dirname "$VERDICT")"
  args+=("--verdict=$VERDICT" "--markdown=$stem.md" "--junit=$stem.xml" "--html=$stem.html")
fi
code=0
"$BINARY" gate "${args[@]}" || code=$?
echo "exit-code=$code" >> "$GITHUB_OUTPUT"
if [ "$code" -eq 4 ] && [ "$ON_INCONCLUSIVE" = warn ]; then code=0; fi
exit "$code"
