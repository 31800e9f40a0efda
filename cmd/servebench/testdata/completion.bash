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
    serve:--path|sweep:-f|sweep:--file) files=-f ;;
    serve:--dir) files=-d ;;
    serve:--goodput|serve:--seed|sim:--ttft|selftest:--concurrency|selftest:--duration|sweep:--only) return ;;
    serve:*|help:serve) words='--backend --insecure --self-timed --no-self-timed --path --dir --goodput --seed --help' ;;
    sweep:*|help:sweep) words='-f --file --resume --only --backend --insecure --self-timed --no-self-timed --path --dir --goodput --seed --help' ;;
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
