# servebench completion for bash: source <(servebench completion bash)
_servebench() {
  local cur prev words files
  COMPREPLY=()
  cur=${COMP_WORDS[COMP_CWORD]}
  prev=${COMP_WORDS[COMP_CWORD-1]}
  if [[ $cur == = ]]; then
    cur=
  elif [[ $prev == = ]]; then
    prev=${COMP_WORDS[COMP_CWORD-2]}
  fi
  if [[ $prev == --* ]]; then prev=${prev//_/-}; fi
  if [[ $cur == --* ]]; then cur=${cur//_/-}; fi
  if ((COMP_CWORD == 1)); then
    words='serve sweep gate sim selftest manifest compare baseline config hdr env completion help version --help --version'
  else
    case ${COMP_WORDS[1]}:$prev in
    serve:--backend) words='a b' ;;
    serve:--path|gate:--result|gate:--baseline|gate:--verdict|gate:--markdown|gate:--junit|gate:--html|sweep:-f|sweep:--file) files=-f ;;
    serve:--dir|gate:--history) files=-d ;;
    serve:--goodput|serve:--seed|gate:--baseline-url|gate:--candidate-url|gate:--baseline-command|gate:--candidate-command|gate:--pairs|gate:--require|gate:--primary|gate:--effect|gate:--cv|gate:--max-failures|gate:--allow-difference|sim:--ttft|selftest:--concurrency|selftest:--duration|sweep:--only) return ;;
    serve:*|help:serve) words='--backend --insecure --self-timed --no-self-timed --path --dir --goodput --seed --help' ;;
    sweep:*|help:sweep) words='-f --file --resume --only --backend --insecure --self-timed --no-self-timed --path --dir --goodput --seed --help' ;;
    gate:*|help:gate) words='--baseline-url --candidate-url --baseline-command --candidate-command --pairs --extend --result --baseline --history --require --primary --effect --certain --cv --max-failures --allow-difference --strict --verdict --markdown --junit --html --backend --insecure --self-timed --no-self-timed --path --dir --goodput --seed --help' ;;
    sim:*) words='--ttft --truth --help' ;;
    selftest:*) words='--concurrency --duration --tls --json --help' ;;
    manifest:manifest) words='check print --help' ;;
    manifest:*)
      case ${COMP_WORDS[2]}:$prev:$cur in
      check:--name:*) return ;;
      check:--facts:*) files=-f ;;
      check:*:-*) words='--all --name --facts --help' ;;
      check:*) files=-f ;;
      print:*) words='--help' ;;
      esac ;;
    config:config) words='init --help' ;;
    config:*)
      case ${COMP_WORDS[2]}:$prev:$cur in
      init:*) words='run subject --help' ;;
      esac ;;
    compare:--format) words='text markdown csv json' ;;
    compare:*)
      case $cur in
      -*) words='--format --all --no-color --help' ;;
      *) files=-f ;;
      esac ;;
    hdr:*)
      case $cur in
      -*) words='--json --out --help' ;;
      *) files=-f ;;
      esac ;;
    completion:completion) words='bash zsh fish' ;;
    help:help) words='serve sweep gate sim selftest manifest compare baseline config hdr env completion' ;;
    esac
  fi
  if [[ -n $files ]]; then
    local IFS=$'\n'
    compopt -o filenames 2>/dev/null
    COMPREPLY=($(compgen $files -- "$cur"))
    return
  fi
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
}
complete -F _servebench servebench
