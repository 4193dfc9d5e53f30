# Completes the name at the cursor. Fails if none is known; then verbs, options and files are completed.
_omega_names() {
    (( CURRENT >= 4 )) && [[ $PREFIX != -* || $PREFIX == --*=* ]] || return 1
    local -a names
    names=(${(f)"$($words[1] __names "${(@)words[2,CURRENT-1]}" "$PREFIX" 2>/dev/null </dev/null)"})
    (( $#names )) || return 1
    compset -P '--*='
    compadd -S '' -- ${(M)names:#*/}
    compadd -- ${names:#*/}
    return 0
}

