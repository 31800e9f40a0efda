#compdef servebench
# servebench completion for zsh: source <(servebench completion zsh), or a file
# _servebench in a folder of $fpath
_servebench() {
  local context state line
  typeset -A opt_args
  _arguments -C '1:command:(serve sweep gate sim selftest manifest compare baseline config hdr env completion help version)' '*::argument:->rest'
  [[ $state == rest ]] || return
  case $line[1] in
  serve)
    _arguments \
      '*--backend=[it'\''s (this)\: one]:value:(a b)' \
      '*--insecure[back\slash]' \
      '*--self-timed[both]' \
      '*--no-self-timed[both]' \
      '*--path=[a file]:file:_files' \
      '*--dir=[a folder]:folder:_files -/' \
      '*--goodput[several]:*-*:value:' \
      '*--seed=[a number]:value: ' \
      '--help[list the flags]'
    ;;
  sweep)
    _arguments \
      '*--file=[the experiment file]:file:_files' \
      '*--resume[go on where an earlier process has ended]' \
      '*--only=[ids of the points to run, with commas between]:value: ' \
      '*--backend=[it'\''s (this)\: one]:value:(a b)' \
      '*--insecure[back\slash]' \
      '*--self-timed[both]' \
      '*--no-self-timed[both]' \
      '*--path=[a file]:file:_files' \
      '*--dir=[a folder]:folder:_files -/' \
      '*--goodput[several]:*-*:value:' \
      '*--seed=[a number]:value: ' \
      '--help[list the flags]'
    ;;
  gate)
    _arguments \
      '*--baseline-url=[server A]:value: ' \
      '*--candidate-url=[server B]:value: ' \
      '*--baseline-command=[start server A for each of its runs]:value: ' \
      '*--candidate-command=[start server B for each of its runs]:value: ' \
      '*--pairs=[pairs of runs, 5 to 20]:value: ' \
      '*--extend[declare one extension by as many pairs]' \
      '*--result=[the candidate'\''s result]:file:_files' \
      '*--baseline=[one earlier result]:file:_files' \
      '*--history=[folder with at least 10 earlier results]:folder:_files -/' \
      '*--require=[a bound, such as p99_ttft < 500ms]:value: ' \
      '*--primary=[the metric that decides]:value: ' \
      '*--effect=[the loss to find]:value: ' \
      '*--certain[fail only where the whole interval is beyond the effect]' \
      '*--cv=[known coefficient of variation between runs]:value: ' \
      '*--max-failures=[share of requests that may fail]:value: ' \
      '*--allow-difference=[a fact that may differ]:value: ' \
      '*--strict[refuse runs that are SUSPECT]' \
      '*--verdict=[write the verdict here as JSON]:file:_files' \
      '*--markdown=[write the verdict here as Markdown]:file:_files' \
      '*--junit=[write the verdict here as JUnit XML]:file:_files' \
      '*--html=[write the verdict here as a page]:file:_files' \
      '*--backend=[it'\''s (this)\: one]:value:(a b)' \
      '*--insecure[back\slash]' \
      '*--self-timed[both]' \
      '*--no-self-timed[both]' \
      '*--path=[a file]:file:_files' \
      '*--dir=[a folder]:folder:_files -/' \
      '*--goodput[several]:*-*:value:' \
      '*--seed=[a number]:value: ' \
      '--help[list the flags]'
    ;;
  sim)
    _arguments \
      '*--ttft=[a time]:value: ' \
      '*--truth[a switch]' \
      '--help[list the flags]'
    ;;
  selftest)
    _arguments \
      '*--concurrency=[`STREAMS` of each step, rising, with commas between]:value: ' \
      '*--duration=[`TIME` that a step takes, 1s to 1m]:value: ' \
      '*--tls[speak HTTPS with the simulator]' \
      '*--json[print one JSON object and no table]' \
      '--help[list the flags]'
    ;;
  manifest)
    _arguments -C '1:command:(check print)' '*::argument:->manifest'
    [[ $state == manifest ]] || return
    case $line[1] in
    check) _arguments \
      '*--all[a switch]' \
      '*--name=[a name]:value: ' \
      '*--facts=[a file]:file:_files' \
      '*:file:_files' \
      '--help[list the flags]' ;;
    print) _arguments \
      '--help[list the flags]' ;;
    esac ;;
  config)
    _arguments -C '1:command:(init)' '*::argument:->config'
    [[ $state == config ]] || return
    case $line[1] in
    init) _arguments \
      '1:kind:(run subject)' \
      '--help[list the flags]' ;;
    esac ;;
  compare) _arguments '--format=[form of the table]:form:(text markdown csv json)' '--all[every figure]' '--no-color[no colour]' '*:file:_files' '--help[list the flags]' ;;
  hdr) _arguments '--json[print JSON]' '--out[write the merged log here]:file:_files' '*:file:_files' '--help[list the flags]' ;;
  completion) _arguments '1:shell:(bash zsh fish)' ;;
  help) _arguments '1:command:(serve sweep gate sim selftest manifest compare baseline config hdr env completion)' ;;
  esac
}
if [[ $funcstack[1] == _servebench ]]; then
  _servebench "$@"
else
  compdef _servebench servebench
fi
