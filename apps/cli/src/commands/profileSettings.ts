import type { components } from '@weighbridge/client';
import { createProfile, deleteProfile, updateProfile } from '@weighbridge/client/operations';
import { type Command, InvalidArgumentError } from 'commander';
import { addCall } from '../resources/calls.ts';
import type { Flags } from '../resources/flags.ts';
import { CACHE, parsePositiveInteger } from '../resources/parsers.ts';
import type { Cli } from '../session/session.ts';

type Target = components['schemas']['ProfileTarget'];

const FLAGS: Flags<keyof components['schemas']['ProfileChanges']> = {
  targets: {
    flag: 'target <model>',
    text: 'a model, and after = its weight for the strategy weighted, such as openai/gpt-4o-mini=3; may be repeated, in order',
    read: collectTargets,
  },
  'constraints.max_input_price_micro_usd': {
    flag: 'max-input-price-micro-usd <n>',
    read: parsePositiveInteger,
  },
  'constraints.max_output_price_micro_usd': {
    flag: 'max-output-price-micro-usd <n>',
    read: parsePositiveInteger,
  },
  cache: CACHE,
  pin_prompt_cache_keys: { no: 'prompt_cache_key pins nothing' },
  auto_cache: { no: 'prompts are cached where requests mark them' },
};

/** `profiles create`, `update` and `delete`. */
export function profileSettingsCommands(cli: Cli, profiles: Command): void {
  addCall(profiles.command('create <name>'), cli, createProfile, {
    description: 'create a profile: requests name it as router/<name>',
    flags: { ...FLAGS, strategy: { default: 'ordered' } },
    examples: [
      'weighbridge profiles create cheap-chat --strategy cheapest --target openai/gpt-4o-mini --target mistral/mistral-small-latest',
      'weighbridge profiles create canary --strategy weighted --target acme/one=9 --target acme/two=1',
    ],
  });
  addCall(profiles.command('update <profile_id>'), cli, updateProfile, {
    description: 'change the given fields of a profile; targets and constraints are replaced as a whole',
    flags: FLAGS,
    examples: ['weighbridge profiles update prf_… --strategy fastest'],
  });
  addCall(profiles.command('delete <profile_id>'), cli, deleteProfile, {
    description: 'delete a profile that no policy and no alias names',
  });
}

function collectTargets(text: string, before: readonly Target[] | undefined): Target[] {
  const [, model = '', weight] = /^([^=\s]+)(?:=(\d{1,7}))?$/.exec(text) ?? [];
  if (model === '' || Number(weight) === 0) {
    throw new InvalidArgumentError(
      'It must be a model, and after = its weight, if it has one: such as acme/one=3.',
    );
  }
  return [...(before ?? []), { model, ...(weight !== undefined && { weight: Number(weight) }) }];
}
