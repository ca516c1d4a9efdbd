/**
 * The scripts that complete command lines, by shell. They pass the words before the cursor to `exec-server __complete`, so candidates
 * come from the table of commands of the installed program.
 */
export const SCRIPTS = {
  bash: `\
# Completion of exec-server for bash. Written by 'exec-server completion bash'.
_exec_server() {
    local current="\${COMP_WORDS[COMP_CWORD]}" paths line IFS=$'\\n'
    local -a words=()
    # bash splits words at = and :, which URLs and --flag=value contain.
    local typed="\${COMP_LINE:0:COMP_POINT}"
    IFS=$' \\t' read -r -a words <<< "\${typed}"
    case "\${typed}" in *[[:space:]]) words+=('') ;; esac
    local whole="\${words[\${#words[@]}-1]}"
    COMPREPLY=()
    {
        IFS= read -r paths || return
        while IFS=$'\\t' read -r line _; do
            # A path of another machine follows, which this shell cannot complete.
            if [[ "\${line}" == "\${whole}" && "\${line}" == *: ]]; then paths=none; continue; fi
            # Readline replaces only what follows the last = or :.
            COMPREPLY+=("\${line:\${#whole}-\${#current}}")
        done
    } < <("\${words[0]}" __complete -- "\${words[@]:1}" 2>/dev/null)
    if [[ "\${current}" == "=" || "\${current}" == ":" ]]; then
        COMPREPLY=("\${COMPREPLY[@]#?}")
        current=''
    fi
    # Beside words, readline must not quote: it would quote the colon of an environment.
    if (( \${#COMPREPLY[@]} > 0 )); then
        if [[ "\${paths}" == files ]]; then
            while IFS= read -r line; do
                if [[ -d "\${line}" ]]; then line+=/; fi
                COMPREPLY+=("$(printf '%q' "\${line}")")
            done < <(compgen -f -- "\${current}")
        fi
        # A path follows.
        if [[ "\${COMPREPLY[0]}" == *[:/] ]]; then compopt -o nospace; fi
        return 0
    fi
    # Readline quotes the names of files.
    case "\${paths}" in
        files) compopt -o filenames; COMPREPLY=($(compgen -f -- "\${current}")) ;;
        directories) compopt -o filenames; COMPREPLY=($(compgen -d -- "\${current}")) ;;
    esac
    return 0
}
complete -F _exec_server exec-server
`,
  zsh: `\
#compdef exec-server
# Completion of exec-server for zsh. Written by 'exec-server completion zsh'.
_exec_server() {
    local paths line word
    local -a lines described opened
    lines=("\${(@f)$("\${words[1]}" __complete -- "\${(@)words[2,CURRENT]}" 2>/dev/null)}")
    paths="\${lines[1]}"
    for line in "\${(@)lines[2,-1]}"; do
        [[ -n "\${line}" ]] || continue
        # A colon divides the word from its description.
        word="\${line%%$'\\t'*}" line="\${word//:/\\\\:}:\${line#*$'\\t'}"
        # The name of an environment is followed by a path.
        if [[ "\${word}" == *: ]]; then opened+=("\${line}"); else described+=("\${line}"); fi
    done
    (( \${#described} )) && _describe 'exec-server' described
    (( \${#opened} )) && _describe 'exec-server' opened -S ''
    # What precedes = belongs to the flag.
    [[ "\${paths}" == none ]] || compset -P '--*='
    case "\${paths}" in
        files) _files ;;
        directories) _files -/ ;;
    esac
}
if [[ "\${funcstack[1]}" == _exec_server || "\${funcstack[1]}" == _exec-server ]]; then
    _exec_server "$@"
else
    compdef _exec_server exec-server
fi
`,
  fish: `\
# Completion of exec-server for fish. Written by 'exec-server completion fish'.
function __exec_server_candidates
    set -l typed (commandline -opc) (commandline -ct)
    set -l lines ($typed[1] __complete -- $typed[2..-1] 2>/dev/null)
    set -l prefix (string match -r -- '^--[^=]+=' $typed[-1])
    set -l partial (string replace -r -- '^--[^=]+=' '' $typed[-1])
    switch "$lines[1]"
        case files
            for path in (__fish_complete_path $partial)
                echo "$prefix$path"
            end
        case directories
            for path in (__fish_complete_directories $partial)
                echo "$prefix$path"
            end
    end
    string join \\n -- $lines[2..-1]
end
complete -c exec-server -f -a '(__exec_server_candidates)'
`,
} as const;
