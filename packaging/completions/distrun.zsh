#compdef distrun
# Completion of distrun for zsh.  The commands and flags come from the program's own --help.  A program without
# commands is distrun under the name torchrun.

_distrun_read_help() {
  local line section
  subcommands=() flags=() valued=()
  for line in "${(@f)$("$called[@]" --help 2>/dev/null </dev/null)}"; do
    if [[ $line == [^\ ]* ]]; then
      section=$line
    elif [[ $section == Commands: && $line =~ '^ {1,8}([a-z][a-z-]*)( +(.*))?$' ]]; then
      subcommands+=("$match[1]:$match[3]")
    elif [[ $line =~ '^ {1,8}((-[[:alnum:]]), )?(--[a-z][a-z0-9-]*)([ =][^ ][^ ]*)?( +(.*))?$' ]]; then
      flags+=("$match[3]:$match[6]")
      [[ -z $match[2] ]] || flags+=("$match[2]:$match[6]")
      [[ -z $match[4] ]] || valued+=($match[3] $match[2])
    fi
  done
}

_distrun() {
  local -a called=(${(Q)~words[1]}) subcommands flags valued match mbegin mend
  local at
  local -i i=2
  _distrun_read_help
  while ((i < CURRENT)); do
    at=$words[i]
    if [[ $at == -* ]]; then
      if (( $valued[(Ie)${at//_/-}] )); then
        ((++i))
        if ((i == CURRENT)); then
          _files
          return
        fi
      fi
    elif (( $#subcommands )); then
      (( $subcommands[(I)${(b)at}:*] )) || return 1
      called+=($at)
      _distrun_read_help
    elif [[ ${called[2]:-launch} == launch ]]; then
      # Arguments of PROGRAM.
      words=("${(@)words[i,-1]}")
      ((CURRENT -= i - 1))
      _normal -P || _files
      return
    fi
    ((++i))
  done

  if [[ $PREFIX == --*=* ]]; then
    compset -P '*='
    _files
  elif [[ $PREFIX == -* ]]; then
    _describe -o flag flags
  elif (( $#subcommands )); then
    _describe command subcommands
  elif [[ ${called[2]:-launch} == launch && -n $PREFIX && $PREFIX != */* ]]; then
    _alternative 'files:file:_files' 'commands:command:_command_names -e'
  else
    _files
  fi
}

_distrun "$@"
