# Completes the name at the cursor. Fails if none is known; then verbs, options and files are completed.
_omega_names() {
    [[ $COMP_CWORD -ge 3 && $2 != -* ]] || return 1
    # Bash leaves the command's name as it is typed, and hides the assignments before it.
    local program=$1 IFS=$'\n'
    [[ $program != "~/"* ]] || program=$HOME/${program:2}
    type -P -- "$program" >/dev/null || program=omega
    COMPREPLY=($("$program" __names "$COMP_CWORD" "${COMP_WORDS[@]:1:COMP_CWORD-1}" "$2" \
        "${COMP_WORDS[@]:COMP_CWORD+1}" 2>/dev/null </dev/null))
    [[ ${#COMPREPLY[@]} -gt 0 ]]
}

