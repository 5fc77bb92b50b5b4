import { bodyOf, type components } from '@weighbridge/client';
import { Command, InvalidArgumentError, Option } from 'commander';
import { type Column, time, usd } from '../session/output.ts';
import { type Cli, firstItems, openSession } from '../session/session.ts';
import { UsageError } from '../session/usageError.ts';
import {
  cacheOrNone,
  collectList,
  limitOf,
  listOptions,
  noneAsNull,
  parseMicroUsd,
  parsePositiveInteger,
} from './options.ts';

type Policy = components['schemas']['Policy'];
type Counter = components['schemas']['PolicyCounter'];
type OnExhausted = components['schemas']['OnExhausted'];
type PolicyChanges = components['schemas']['PolicyChanges'];

const COLUMNS: readonly Column<Policy>[] = [
  ['ID', (policy) => policy.id],
  ['NAME', (policy) => policy.name],
  ['LIMIT', (policy) => usd(policy.limit_micro_usd)],
  ['WINDOW', (policy) => policy.window],
  ['PER', (policy) => policy.counter_scope],
  ['ENFORCEMENT', (policy) => policy.enforcement],
  ['DEFAULT FOR', (policy) => policy.default_for],
  ['PARENT', (policy) => policy.parent_policy_id],
];

export function policiesCommand(cli: Cli): Command {
  const policies = new Command('policies').description('budgets and rules for keys');

  listOptions(policies.command('list'))
    .description('list policies, newest first')
    .option('--name <text>', 'only policies whose name contains this')
    .option('--parent <id>', 'only policies with this parent')
    .action(async (options, command: Command) => {
      const session = await openSession(cli, command);
      const filter = {
        ...(options.name && { name_contains: options.name }),
        ...(options.parent && { parent_policy_id: options.parent }),
      };
      const items = await firstItems(session, limitOf(options), (page) =>
        bodyOf(session.client.GET('/api/v1/policies', { params: { query: { ...filter, ...page } } })),
      );
      session.showList(items, COLUMNS);
    });

  policies
    .command('show <policy_id>')
    .description('show a policy')
    .action(async (policy_id: string, _options, command: Command) => {
      const session = await openSession(cli, command);
      const params = { path: { policy_id } };
      session.showOne(await bodyOf(session.client.GET('/api/v1/policies/{policy_id}', { params })));
    });

  listOptions(policies.command('counters <policy_id>'))
    .description('what each key or principal, or all together, have spent and may still spend in this window')
    .addOption(
      new Option('--sort <order>', 'the order')
        .choices(['-spent', 'spent', '-leased', 'leased'])
        .default('-spent'),
    )
    .option('--principal <id>', 'only counters that this principal counts in')
    .action(async (policy_id: string, options, command: Command) => {
      const session = await openSession(cli, command);
      const query = { sort: options.sort, ...(options.principal && { principal_id: options.principal }) };
      const of = { scope: '', reset: null as string | null };
      const items = await firstItems(session, limitOf(options), async (page) => {
        const params = { path: { policy_id }, query: { ...query, ...page } };
        const counters = await bodyOf(
          session.client.GET('/api/v1/policies/{policy_id}/counters', { params }),
        );
        of.scope = counters.counter_scope;
        of.reset = counters.reset;
        return counters;
      });
      session.showList(items, [
        ['PRINCIPAL', (counter) => counter.principal_id],
        ...(of.scope === 'key' ? [['KEY', keyText] satisfies Column<Counter>] : []),
        ['SPENT', (counter) => usd(counter.spent_micro_usd)],
        ['LEASED', (counter) => usd(counter.leased_micro_usd)],
        ['LIMIT', (counter) => usd(counter.limit_micro_usd)],
        ['HEADROOM', (counter) => usd(counter.headroom_micro_usd)],
        ...(items.some(({ override }) => override)
          ? [['LIMIT ENDS', ({ override }) => time(override?.ends_at ?? null)] satisfies Column<Counter>]
          : []),
      ]);
      if (!session.json && of.reset !== null) session.err(`The window ends at ${time(of.reset)}.`);
    });

  policyOptions(policies.command('create <name>'))
    .description('create a policy')
    .addHelpText(
      'after',
      '\nExamples:\n  weighbridge policies create team --limit-usd 50 --window month --counter-scope policy\n  weighbridge policies create trial --limit-usd 0.50 --window day --allow "openai/*" --self-service',
    )
    .action(async (name: string, options, command: Command) => {
      const session = await openSession(cli, command);
      const body = { ...changes(options), name };
      session.showOne(await bodyOf(session.client.POST('/api/v1/policies', { body })));
    });

  policyOptions(policies.command('update <policy_id>'))
    .description('change the given fields of a policy')
    .option('--name <name>', 'the new name')
    .addHelpText(
      'after',
      '\nExample:\n  weighbridge policies update pol_… --limit-usd unlimited --enforcement shadow',
    )
    .action(async (policy_id: string, options, command: Command) => {
      const body = changes(options);
      if (Object.keys(body).length === 0)
        throw new UsageError('Nothing to change. Give at least one option.');
      const session = await openSession(cli, command);
      const params = { path: { policy_id } };
      session.showOne(await bodyOf(session.client.PATCH('/api/v1/policies/{policy_id}', { params, body })));
    });

  policies
    .command('delete <policy_id>')
    .description('delete a policy that governs no one')
    .action(async (policy_id: string, _options, command: Command) => {
      const session = await openSession(cli, command);
      const params = { path: { policy_id } };
      session.showOne(await bodyOf(session.client.DELETE('/api/v1/policies/{policy_id}', { params })));
    });

  return policies;
}

function keyText({ key_id, key_name }: Counter): string {
  return key_name === null ? (key_id ?? '') : `${key_name} (${key_id})`;
}

/** Fields of a policy; `none` clears one. */
function policyOptions(command: Command): Command {
  return command
    .option('--limit-usd <amount>', 'limit per window in dollars, such as 12.50, or unlimited', limitMicroUsd)
    .option(
      '--limit-micro-usd <n>',
      'the same in millionths of a dollar, as in the API, or unlimited',
      countOrUnlimited,
    )
    .addOption(
      new Option('--window <window>', 'the window after which spend starts again').choices([
        'hour',
        'day',
        'week',
        'month',
        'none',
      ]),
    )
    .option('--timezone <name>', 'time zone of the windows, such as Europe/Vienna')
    .addOption(
      new Option(
        '--counter-scope <scope>',
        'what has a counter: each key, each principal, or the whole policy',
      ).choices(['key', 'principal', 'policy']),
    )
    .addOption(
      new Option(
        '--enforcement <mode>',
        'at a limit: enforce refuses, shadow only counts, off does nothing',
      ).choices(['enforce', 'shadow', 'off']),
    )
    .addOption(
      new Option(
        '--budget-mode <mode>',
        'balanced reserves an estimate, hard the most that a request can cost',
      ).choices(['balanced', 'hard']),
    )
    .option(
      '--hard-allow-field <field>',
      'a request field that hard budgets let pass unbounded, such as "tools[].type=mcp"; may be repeated',
      collectList,
    )
    .option('--allow <pattern>', 'an allowed model; * matches any text; may be repeated', collectList)
    .addOption(
      new Option(
        '--foreign-objects <rule>',
        'whether requests may use vendor-stored objects that were not created here: any, own',
      ).choices(['any', 'own']),
    )
    .addOption(
      new Option(
        '--translation <rule>',
        'a request of which a vendor with another dialect can not get everything: lenient sends it, strict refuses it',
      ).choices(['lenient', 'strict']),
    )
    .option('--requests-per-minute <n>', 'limit of requests per minute, or none', countOrNone)
    .option('--tokens-per-minute <n>', 'limit of tokens per minute, or none', countOrNone)
    .option('--max-parallel <n>', 'limit of requests at the same time, or none', countOrNone)
    .option('--profile <profile_id>', 'the routing profile that router/default names, or none')
    .option(
      '--on-exhausted <profile_id,policy_id>',
      'where requests go once the budget is used up: by this profile, under this policy; or none: they are refused',
      onExhaustedOrNone,
    )
    .option(
      '--cache <scope:seconds>',
      'who shares cached responses, and for how long: such as policy:3600 or principal:60, or none',
      cacheOrNone,
    )
    .option(
      '--threshold <percent>',
      'a percentage of the limit to report on; may be repeated, or none',
      thresholdsOrNone,
    )
    .option('--parent <policy_id>', 'the parent policy, whose budget applies too, or none')
    .addOption(
      new Option('--default-for <kind>', 'the kind of keys without another policy that it governs').choices([
        'service',
        'user',
        'all',
        'none',
      ]),
    )
    .option('--self-service', 'callers may choose it for their own keys')
    .option('--no-self-service', 'only operators assign it');
}

function changes(options: Readonly<Record<string, never>>): PolicyChanges {
  if (options.limitUsd !== undefined && options.limitMicroUsd !== undefined) {
    throw new UsageError('--limit-usd and --limit-micro-usd are the same: give one.');
  }
  const given: Record<string, unknown> = {
    name: options.name,
    limit_micro_usd: noneAsNull(options.limitUsd ?? options.limitMicroUsd),
    window: options.window,
    timezone: options.timezone,
    counter_scope: options.counterScope,
    enforcement: options.enforcement,
    budget_mode: options.budgetMode,
    hard_allow_fields: options.hardAllowField,
    allowed_models: options.allow,
    foreign_objects: options.foreignObjects,
    translation: options.translation,
    requests_per_minute: noneAsNull(options.requestsPerMinute),
    tokens_per_minute: noneAsNull(options.tokensPerMinute),
    max_parallel: noneAsNull(options.maxParallel),
    parent_policy_id: noneAsNull(options.parent),
    default_for: noneAsNull(options.defaultFor),
    self_service: options.selfService,
    profile_id: noneAsNull(options.profile),
    on_exhausted: noneAsNull(options.onExhausted),
    cache: noneAsNull(options.cache),
    thresholds: options.threshold,
  };
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
}

function onExhaustedOrNone(text: string): OnExhausted | 'none' {
  if (text === 'none') return text;
  const [, profile_id, policy_id] = /^(prf_[^,]+),(pol_[^,]+)$/.exec(text) ?? [];
  if (profile_id !== undefined && policy_id !== undefined) return { profile_id, policy_id };
  throw new InvalidArgumentError(
    'It must be the ids of a profile and a policy, such as prf_…,pol_…, or none.',
  );
}

/** Numbers of percent, as they are collected; `none` clears them. */
function thresholdsOrNone(text: string, before: readonly number[] | undefined): number[] {
  return text === 'none' ? [] : [...(before ?? []), ...text.split(',').map(parsePositiveInteger)];
}

function countOrNone(text: string): number | 'none' {
  return text === 'none' ? text : parsePositiveInteger(text);
}

function countOrUnlimited(text: string): number | 'unlimited' {
  if (text === 'unlimited') return text;
  if (/^\d{1,15}$/.test(text)) return Number(text);
  throw new InvalidArgumentError('It must be a whole number of micro-USD, or unlimited.');
}

function limitMicroUsd(text: string): number | 'unlimited' {
  return text === 'unlimited' ? text : parseMicroUsd(text, ', or unlimited');
}
