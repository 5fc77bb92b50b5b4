import { bodyOf, type components } from '@weighbridge/client';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { type Cli, openSession } from '../session/session.ts';
import { UsageError } from '../session/usageError.ts';
import { cacheOrNone, collectList, noneAsNull, parsePositiveInteger } from './options.ts';

type Target = components['schemas']['ProfileTarget'];
type NewProfile = components['schemas']['NewProfile'];
type ProfileChanges = components['schemas']['ProfileChanges'];

/** `profiles create`, `update` and `delete`. */
export function profileSettingsCommands(cli: Cli, profiles: Command): void {
  settingOptions(profiles.command('create <name>'))
    .description('create a profile: requests name it as router/<name>')
    .addHelpText(
      'after',
      '\nExamples:\n  weighbridge profiles create cheap-chat --strategy cheapest --target openai/gpt-4o-mini --target mistral/mistral-small-latest\n  weighbridge profiles create canary --strategy weighted --target acme/one=9 --target acme/two=1',
    )
    .action(async (name: string, options, command: Command) => {
      const { targets, strategy = 'ordered', ...others } = changes(options);
      if (!targets) throw new UsageError('--target: give at least one model, such as openai/gpt-4o-mini.');
      const body: NewProfile = { ...others, name, strategy, targets };
      const session = await openSession(cli, command);
      session.showOne(await bodyOf(session.client.POST('/api/v1/profiles', { body })));
    });

  settingOptions(profiles.command('update <profile_id>'))
    .description('change the given fields of a profile; targets and constraints are replaced as a whole')
    .option('--name <name>', 'the new name')
    .addHelpText('after', '\nExample:\n  weighbridge profiles update prf_… --strategy fastest')
    .action(async (profile_id: string, options, command: Command) => {
      const body = changes(options);
      if (Object.keys(body).length === 0)
        throw new UsageError('Nothing to change. Give at least one option.');
      const session = await openSession(cli, command);
      const params = { path: { profile_id } };
      session.showOne(await bodyOf(session.client.PATCH('/api/v1/profiles/{profile_id}', { params, body })));
    });

  profiles
    .command('delete <profile_id>')
    .description('delete a profile that no policy and no alias names')
    .action(async (profile_id: string, _options, command: Command) => {
      const session = await openSession(cli, command);
      const params = { path: { profile_id } };
      session.showOne(await bodyOf(session.client.DELETE('/api/v1/profiles/{profile_id}', { params })));
    });
}

function settingOptions(command: Command): Command {
  return command
    .option(
      '--target <model>',
      'a model, and after = its weight for the strategy weighted, such as openai/gpt-4o-mini=3; may be repeated, in order',
      collectTargets,
    )
    .addOption(
      new Option('--strategy <strategy>', 'how it chooses among its models; default: ordered').choices([
        'ordered',
        'weighted',
        'cheapest',
        'fastest',
        'best_score',
        'adaptive',
      ]),
    )
    .option('--context-window <tokens>', 'only models with at least this window', parsePositiveInteger)
    .option(
      '--max-input-price-micro-usd <n>',
      'only models that cost at most this, per million input tokens',
      parsePositiveInteger,
    )
    .option(
      '--max-output-price-micro-usd <n>',
      'only models that cost at most this, per million output tokens',
      parsePositiveInteger,
    )
    .option('--min-score <n>', 'only models with at least this published score', parsePositiveInteger)
    .option('--capability <name>', 'only models with this capability; may be repeated', collectList)
    .option(
      '--cache <scope:seconds>',
      'who shares cached responses, and for how long: such as policy:3600 or principal:60, or none',
      cacheOrNone,
    )
    .option('--pin-prompt-cache-keys', 'requests with the same prompt_cache_key stay on one account')
    .option('--no-pin-prompt-cache-keys', 'prompt_cache_key pins nothing')
    .addOption(
      new Option(
        '--translation <rule>',
        'a request of which a vendor with another dialect can not get everything: lenient sends it, strict refuses it',
      ).choices(['lenient', 'strict']),
    );
}

function changes(options: Readonly<Record<string, never>>): ProfileChanges {
  const constraints = given({
    context_window: options.contextWindow,
    max_input_price_micro_usd: options.maxInputPriceMicroUsd,
    max_output_price_micro_usd: options.maxOutputPriceMicroUsd,
    min_score: options.minScore,
    capabilities: options.capability,
  });
  return given({
    name: options.name,
    strategy: options.strategy,
    targets: options.target,
    constraints: Object.keys(constraints).length > 0 ? constraints : undefined,
    cache: noneAsNull(options.cache),
    pin_prompt_cache_keys: options.pinPromptCacheKeys,
    translation: options.translation,
  });
}

function given(fields: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
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
