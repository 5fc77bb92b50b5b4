import { Command, type Option } from 'commander';
import type { Cli } from '../session/session.ts';

const SHELLS = ['bash', 'zsh', 'fish'] as const;

/** Each script asks the command for candidates, so that a script never becomes outdated. */
const SCRIPTS: Record<(typeof SHELLS)[number], string> = {
  bash: `_weighbridge() {
  local IFS=$'\\n'
  COMPREPLY=($(compgen -W "$(weighbridge complete -- "\${COMP_WORDS[@]:1:COMP_CWORD-1}" 2>/dev/null)" -- "\${COMP_WORDS[COMP_CWORD]}"))
  [ \${#COMPREPLY[@]} -gt 0 ] || COMPREPLY=($(compgen -f -- "\${COMP_WORDS[COMP_CWORD]}"))
}
complete -F _weighbridge weighbridge`,
  zsh: `#compdef weighbridge
_weighbridge() {
  local -a candidates
  candidates=(\${(f)"$(weighbridge complete -- "\${words[2,CURRENT-1][@]}" 2>/dev/null)"})
  if (( \${#candidates} )); then compadd -a candidates; else _files; fi
}
compdef _weighbridge weighbridge`,
  fish: `complete -c weighbridge -f -a '(weighbridge complete -- (commandline -opc)[2..] 2>/dev/null)'
complete -c weighbridge -n '__fish_seen_subcommand_from apply import' -F`,
};

export function completionCommand(cli: Cli): Command {
  return new Command('completion')
    .description('print a shell completion script')
    .argument('<shell>', `one of ${SHELLS.join(', ')}`)
    .addHelpText(
      'after',
      '\nExamples:\n  source <(weighbridge completion bash)\n  weighbridge completion zsh > ~/.zsh/completions/_weighbridge\n  weighbridge completion fish > ~/.config/fish/completions/weighbridge.fish',
    )
    .action((shell: string, _options, command: Command) => {
      const script = SCRIPTS[shell as keyof typeof SCRIPTS];
      if (script === undefined)
        command.error(`error: there is no completion for ${shell}; use ${SHELLS.join(', ')}`);
      cli.out(script);
    });
}

/** The completion scripts call it with the words so far. */
export function completeCommand(cli: Cli, program: Command): Command {
  return new Command('complete')
    .argument('[words...]')
    .action((words: string[]) => cli.out(candidates(program, words).join('\n')));
}

/** The commands, options and values that may follow these words. */
export function candidates(program: Command, words: readonly string[]): string[] {
  let at = program;
  let expected: Option | undefined;
  for (const word of words) {
    if (expected) expected = undefined;
    else if (word.startsWith('-'))
      expected = optionsOf(at).find(
        (option) => [option.short, option.long].includes(word) && takesValue(option),
      );
    else at = at.commands.find((command) => command.name() === word) ?? at;
  }
  if (expected) return [...(expected.argChoices ?? [])];
  const names = at
    .createHelp()
    .visibleCommands(at)
    .map((command) => command.name());
  const values = at.registeredArguments.flatMap((argument) => argument.argChoices ?? []);
  const flags = optionsOf(at).flatMap((option) => option.long ?? []);
  return [...new Set([...names, ...values, ...flags])];
}

function optionsOf(command: Command): Option[] {
  const inherited = command.parent ? optionsOf(command.parent) : [];
  return [...command.options, ...inherited].filter((option) => !option.hidden && option.long !== '--version');
}

function takesValue(option: Option): boolean {
  return option.required || option.optional;
}
