# Completes the name at the cursor. Fails if none is known; then verbs, options and files are completed.
_omega_names() {
    (( CURRENT >= 4 )) && [[ $PREFIX != -* || $PREFIX == --*=* ]] || return 1
    local program=${(Q)words[1]} word
    [[ $program != "~/"* ]] || program=$HOME/${program#"~/"}
    local -a names given
    # The assignments before the command.
    for word in ${(z)LBUFFER}; do
        case $word in
            (OMEGA_[A-Z_]##=*) given+=(${(Q)word}) ;;
            (\;|\||\|\||\&|\&\&) given=() ;;
        esac
    done
    local -a before=("${(@Q)words[2,CURRENT-1]}" "$PREFIX") after=("${(@Q)words[CURRENT+1,-1]}")
    names=(${(f)"$(env $given $program __names $#before "${before[@]}" "${after[@]}" 2>/dev/null </dev/null)"})
    (( $#names )) || return 1
    compset -P '--*='
    compadd -S '' -- ${(M)names:#*/}
    compadd -- ${names:#*/}
    return 0
}

