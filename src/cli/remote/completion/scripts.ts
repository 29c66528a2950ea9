// The scripts by which bash, zsh and fish complete the command line. Each finds the longest sequence of words that is a command; after an
// option that takes a value it completes the value, otherwise commands, options and the argument of the command.
import type { Position, Values } from './positions.ts';

export const shells = ['bash', 'zsh', 'fish'] as const;
export type Shell = (typeof shells)[number];

/** Words, or a colon and what the script has to find. */
const kindOf = (values: Values): string => (typeof values === 'string' ? `:${values}` : values.join(' '));

/** Options of the same values in one branch. */
function branchesOf({ options }: Position): readonly (readonly [readonly string[], string])[] {
  const byKind = Map.groupBy(options, ({ values }) => kindOf(values));
  return [...byKind].map(([kind, of]) => [of.flatMap(({ flags }) => flags), kind] as const);
}

/** For bash and zsh, which differ in how words are given. `words`: the assignment of the words of a position. */
const placeFunction = (
  positions: readonly Position[],
  wordsOf: (position: Position) => string,
): string => `_tabularium_place() {
  case "$1" in
${positions
  .map((position) => {
    const branches = branchesOf(position).map(([flags, kind]) => `${flags.join('|')}) values="${kind}" ;;`);
    const values = branches.length === 0 ? '' : `; case "$2" in ${branches.join(' ')} esac`;
    return `    "${position.after}") ${wordsOf(position)}; argument="${kindOf(position.argument)}"${values} ;;`;
  })
  .join('\n')}
    *) return 1 ;;
  esac
}`;

const profilesOf = (program: string): string =>
  `${program} profiles --json 2>/dev/null | sed -n 's/^ *"profile": "\\(.*\\)",*$/\\1/p'`;

const bash = (positions: readonly Position[]): string => `# Completion of tabularium for bash.
${placeFunction(positions, ({ words }) => `words="${words.map(({ word }) => word).join(' ')}"`)}
_tabularium() {
  local current="\${COMP_WORDS[COMP_CWORD]}" before="\${COMP_WORDS[COMP_CWORD-1]}" place="" words="" argument="" values="" word
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case "$word" in -*) break ;; *) place="\${place:+$place }$word" ;; esac
  done
  if [ "$current" = "=" ]; then current=""; elif [ "$before" = "=" ]; then before="\${COMP_WORDS[COMP_CWORD-2]}"; fi
  until _tabularium_place "$place" "$before"; do
    case "$place" in *" "*) place="\${place% *}" ;; *) place="" ;; esac
  done
  local kind="\${values:-$argument}" offered="$words"
  if [ -n "$values" ]; then offered=""; fi
  COMPREPLY=()
  case "$kind" in
    :files) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f -- "$current") ;;
    :profiles) offered="$offered $(${profilesOf('"$COMP_WORDS"')})" ;;
    :*) ;;
    *) offered="$offered $kind" ;;
  esac
  COMPREPLY+=($(compgen -W "$offered" -- "$current"))
}
complete -F _tabularium tabularium
`;

const zsh = (positions: readonly Position[]): string => `#compdef tabularium
# Completion of tabularium for zsh.
${placeFunction(positions, ({ words }) => `candidates=(${words.map(({ word, doc }) => `'${word}:${doc}'`).join(' ')})`)}
_tabularium() {
  local place="" argument="" values="" word before="\${words[CURRENT-1]}"
  local -a candidates
  for word in "\${(@)words[2,CURRENT-1]}"; do
    case "$word" in -*) break ;; ?*) place="\${place:+$place }$word" ;; esac
  done
  if [[ "$PREFIX" == --*=* ]]; then before="\${PREFIX%%=*}"; compset -P '*='; fi
  until _tabularium_place "$place" "$before"; do
    case "$place" in *" "*) place="\${place% *}" ;; *) place="" ;; esac
  done
  if [[ -n "$values" ]]; then candidates=(); else values="$argument"; fi
  case "$values" in
    :files) _files ;;
    :profiles) candidates+=(\${(f)"$(${profilesOf('"$words[1]"')})"}) ;;
    :*) ;;
    *) candidates+=(\${=values}) ;;
  esac
  (( \${#candidates} )) && _describe 'tabularium' candidates
}
if [[ "$funcstack[1]" == "_tabularium" ]]; then _tabularium "$@"; else compdef _tabularium tabularium; fi
`;

const fish = (positions: readonly Position[]): string => `# Completion of tabularium for fish.
function __tabularium_place
  set -g __tabularium_values
  switch "$argv[1]"
${positions
  .map((position) => {
    const words = position.words.map(({ word, doc }) => `'${word}\t${doc}'`).join(' ');
    const cases = branchesOf(position).map(
      ([flags, kind]) => `      case ${flags.join(' ')}
        set -g __tabularium_values '${kind}'`,
    );
    const values =
      cases.length === 0
        ? ''
        : `
      switch "$argv[2]"
${cases.join('\n')}
      end`;
    return `    case '${position.after}'
      set -g __tabularium_words ${words}
      set -g __tabularium_argument '${kindOf(position.argument)}'${values}`;
  })
  .join('\n')}
    case '*'
      return 1
  end
  return 0
end
function __tabularium_candidates
  set -l given (commandline -opc)
  set -l current (commandline -ct)
  set -l before $given[-1]
  set -l lead
  if string match -q -- '--*=*' $current
    set before (string split -m 1 -- = $current)[1]
    set lead "$before="
  end
  set -l place
  for word in $given[2..-1]
    string match -q -- '-*' $word; and break
    set -a place $word
  end
  while not __tabularium_place "$place" "$before"
    set -e place[-1]
  end
  set -l kind $__tabularium_values
  if test -z "$kind"
    printf '%s\\n' $__tabularium_words
    set kind $__tabularium_argument
  end
  switch "$kind"
    case :files
      __fish_complete_path (string replace -- "$lead" "" $current | string unescape)
    case :profiles
      ${profilesOf('$given[1]')}
    case ':*'
    case '*'
      for word in (string split ' ' -- $kind)
        echo "$lead$word"
      end
  end
end
complete -c tabularium -f -a '(__tabularium_candidates)'
`;

export const scripts: Readonly<Record<Shell, (positions: readonly Position[]) => string>> = { bash, zsh, fish };
