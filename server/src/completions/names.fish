

# Finds the names at the cursor. Fails if none is known; then verbs, options and files are completed.
function __fish_omega_names
    set -g __fish_omega_found
    set -l words (commandline -opc)
    set -l last (commandline -ct)
    set -l count (count $words)
    test $count -ge 3
    or return 1
    string match -qr -- '^-[^=]*$' $last
    and return 1
    # Fish carries out the assignments before the command, and hides the words after the cursor.
    set -l program (string replace -r '^~/' "$HOME/" -- $words[1])
    set __fish_omega_found (command $program __names $count $words[2..-1] "$last" 2>/dev/null </dev/null)
    test (count $__fish_omega_found) -gt 0
end

complete -c omega -n __fish_omega_names -f -a '$__fish_omega_found'
for option in job machine tenant parent scheduler context
    complete -c omega -n __fish_omega_names -l $option -x -a '$__fish_omega_found'
end
