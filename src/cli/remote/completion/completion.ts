// `completion`: prints the script that makes bash, zsh or fish complete the commands and options, from the commands themselves.
import { Argument, Command } from 'commander';

const shells = ['bash', 'zsh', 'fish'] as const;

export function completionCommand(program: Command): Command {
  const command = new Command('completion').description(
    'Prints the script by which a shell completes commands and options.',
  );
  command.addArgument(new Argument('<shell>').choices([...shells]));
  command.addHelpText(
    'after',
    '\nExamples:\n  source <(tabularium completion bash)\n  tabularium completion zsh > ~/.zfunc/_tabularium\n  tabularium completion fish > ~/.config/fish/completions/tabularium.fish',
  );
  return command.action(
    (shell: (typeof shells)[number]) => void process.stdout.write(scripts[shell](wordsOf(program))),
  );
}

/** The words that may follow the words of a command. */
interface Position {
  /** The words so far, joined by spaces; empty at the beginning. */
  readonly after: string;
  readonly words: readonly { readonly word: string; readonly doc: string }[];
}

/** A sentence in one line without what a shell would interpret. */
const docOf = (text: string): string =>
  text
    .replaceAll(/["'`$\\:[\]]/g, '')
    .split('\n')[0]
    ?.slice(0, 80) ?? '';

export function wordsOf(program: Command): readonly Position[] {
  const positions: Position[] = [];
  const walk = (command: Command, after: string) => {
    const options = command.options.flatMap(({ long, description, hidden }) =>
      long && !hidden ? [{ word: long, doc: docOf(description) }] : [],
    );
    const commands = command.commands.map((each) => ({ word: each.name(), doc: docOf(each.description()) }));
    positions.push({ after, words: [...commands, ...options] });
    for (const each of command.commands) walk(each, after === '' ? each.name() : `${after} ${each.name()}`);
  };
  walk(program, '');
  return positions;
}

const scripts: Readonly<Record<(typeof shells)[number], (positions: readonly Position[]) => string>> = {
  bash: (positions) => `# Completion of tabularium for bash.
_tabularium() {
  local current="\${COMP_WORDS[COMP_CWORD]}" path="" word
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case "$word" in -*) break ;; *) path="\${path:+$path }$word" ;; esac
  done
  local words=""
  while [ -n "$path" ] || [ -z "$words" ]; do
    case "$path" in
${positions.map(({ after, words }) => `      "${after}") words="${words.map(({ word }) => word).join(' ')}" ;;`).join('\n')}
    esac
    [ -n "$words" ] && break
    case "$path" in *" "*) path="\${path% *}" ;; *) path="" ;; esac
  done
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  [ \${#COMPREPLY[@]} -eq 0 ] && COMPREPLY=($(compgen -f -- "$current"))
}
complete -o filenames -F _tabularium tabularium
`,
  zsh: (positions) => `#compdef tabularium
# Completion of tabularium for zsh.
_tabularium() {
  local path="" word
  local -a candidates
  for word in "\${(@)words[2,CURRENT-1]}"; do
    case "$word" in -*) break ;; *) path="\${path:+$path }$word" ;; esac
  done
  while true; do
    case "$path" in
${positions
  .map(
    ({ after, words }) =>
      `      "${after}") candidates=(${words.map(({ word, doc }) => `'${word}:${doc}'`).join(' ')}) ;;`,
  )
  .join('\n')}
    esac
    [[ -n "$candidates" || -z "$path" ]] && break
    case "$path" in *" "*) path="\${path% *}" ;; *) path="" ;; esac
  done
  _describe 'tabularium' candidates || _files
}
if [ "$funcstack[1]" = "_tabularium" ]; then _tabularium "$@"; else compdef _tabularium tabularium; fi
`,
  fish: (positions) => `# Completion of tabularium for fish.
function __tabularium_at
  set -l words (commandline -opc)
  set -l path
  for word in $words[2..]
    string match -q -- '-*' $word; and break
    set -a path $word
  end
  set -l wanted (string split ' ' -- $argv[1])
  test -z "$argv[1]"; and test (count $path) -eq 0; and return 0
  test (count $path) -ge (count $wanted); or return 1
  test "$path[1..(count $wanted)]" = "$argv[1]"
end
${positions
  .flatMap(({ after, words }) =>
    words.map(({ word, doc }) => {
      const what = word.startsWith('--') ? `-l ${word.slice(2)}` : `-a ${word}`;
      return `complete -c tabularium -f -n "__tabularium_at '${after}'" ${what} -d '${doc}'`;
    }),
  )
  .join('\n')}
`,
};
