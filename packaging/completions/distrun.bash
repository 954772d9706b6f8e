# Completion of distrun for bash.  The commands and flags come from the program's own --help.  A program without
# commands is distrun under the name torchrun.

# The commands below `WORD…`, one a line.
_distrun_commands() {
  "$@" --help 2>/dev/null </dev/null |
    sed -n '/^Commands:/,/^$/s/^ \{1,8\}\([a-z][a-z-]*\)\( .*\)\{0,1\}$/\1/p'
}

# The flags of `WORD…`, one a line, with a `=` at the end if the flag takes a value.
_distrun_flags() {
  "$@" --help 2>/dev/null </dev/null | sed -n '
    s/^ \{1,8\}\(-[[:alnum:]], \)\{0,1\}\(--[a-z][a-z0-9-]*\)\([ =][^ ].*\)$/\1\2=/p; t
    s/^ \{1,8\}\(-[[:alnum:]], \)\{0,1\}\(--[a-z][a-z0-9-]*\)\( .*\)\{0,1\}$/\1\2/p' |
    sed 's/^\(-.\), \(.*[^=]\)\(=\{0,1\}\)$/\1\3\n\2\3/'
}

_distrun() {
  local word=${COMP_WORDS[COMP_CWORD]} command=("${COMP_WORDS[0]/#\~/$HOME}") commands flags at i=1
  COMPREPLY=()
  commands=$(_distrun_commands "${command[@]}")
  flags=$(_distrun_flags "${command[@]}")
  while ((i < COMP_CWORD)); do
    at=${COMP_WORDS[i]}
    ((++i))
    if [[ $at == -* ]]; then
      # The value is the next word; a `=` before it is a word too.
      if [[ ${COMP_WORDS[i]} == "=" ]]; then
        ((++i))
      elif ! grep -qxF -e "${at//_/-}=" <<<"$flags"; then
        continue
      fi
      if ((i >= COMP_CWORD)); then
        compopt -o default
        return
      fi
      ((++i))
    elif [[ -n $commands ]]; then
      grep -qxF -e "$at" <<<"$commands" || return
      command+=("$at")
      commands=$(_distrun_commands "${command[@]}")
      flags=$(_distrun_flags "${command[@]}")
    elif [[ ${command[1]-launch} == launch ]]; then
      compopt -o default  # Arguments of PROGRAM.
      return
    fi
  done

  if [[ $word == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "${flags//=/}" -- "$word")
  elif [[ -n $commands ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$commands" -- "$word")
  elif [[ ${command[1]-launch} == launch && -n $word && $word != */* ]]; then
    mapfile -t COMPREPLY < <(compgen -f -- "$word"; compgen -c -- "$word")
    compopt -o filenames
  else
    compopt -o default
  fi
}
complete -F _distrun distrun
