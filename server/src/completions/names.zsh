# Completes the name at the cursor. Fails if none is known; then verbs, options and files are completed.
_omega_names() {
    (( CURRENT >= 4 )) && [[ $PREFIX != -* || $PREFIX == --*=* ]] || return 1
    local program=${(Q)words[1]} word
    [[ $program != "~/"* ]] || program=$HOME/${program#"~/"}
    local -a names given
    # The assignments before the command.
    for word in ${(z)LBUFFER}; do
        case $word in
            (OMEGA_[A-Z]##=*) given+=(${(Q)word}) ;;
            (\;|\||\|\||\&|\&\&) given=() ;;
        esac
    done
    names=(${(f)"$((( $#given )) && export $given; $program __names $(( CURRENT - 1 )) "${(@Q)words[2,CURRENT-1]}" "$PREFIX" \
        "${(@Q)words[CURRENT+1,-1]}" 2>/dev/null </dev/null)"})
    (( $#names )) || return 1
    compset -P '--*='
    compadd -S '' -- ${(M)names:#*/}
    compadd -- ${names:#*/}
    return 0
}

