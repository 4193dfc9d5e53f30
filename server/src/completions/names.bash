# Completes the name at the cursor. Fails if none is known; then verbs, options and files are completed.
_omega_names() {
    [[ $COMP_CWORD -ge 3 && $2 != -* ]] || return 1
    local IFS=$'\n'
    COMPREPLY=($("$1" __names "${COMP_WORDS[@]:1:COMP_CWORD-1}" "$2" 2>/dev/null </dev/null))
    [[ ${#COMPREPLY[@]} -gt 0 ]]
}

