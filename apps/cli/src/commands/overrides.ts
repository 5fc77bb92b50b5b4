import { bodyOf, type components } from '@weighbridge/client';
import { Command } from 'commander';
import { type Column, time, usd } from '../session/output.ts';
import { type Cli, firstItems, openSession } from '../session/session.ts';
import { UsageError } from '../session/usageError.ts';
import { limitOf, listOptions, parseDuration, parseMicroUsd, parseTime } from './options.ts';

type Override = components['schemas']['Override'];

const COLUMNS: readonly Column<Override>[] = [
  ['ID', (override) => override.id],
  ['POLICY', (override) => override.policy_name],
  ['PRINCIPAL', (override) => override.principal_id],
  ['KEY', (override) => override.key_id],
  ['LIMIT', (override) => usd(override.limit_micro_usd)],
  ['ACTIVE', (override) => override.active],
  ['ENDS', (override) => time(override.ended_at ?? override.ends_at)],
  ['REASON', (override) => override.reason],
  ['BY', (override) => override.created_by],
];

export function overridesCommand(cli: Cli): Command {
  const overrides = new Command('overrides').description('temporary limits for one counter');
  addReads(overrides, cli);
  addCreate(overrides, cli);
  addUpdate(overrides, cli);

  overrides
    .command('end <override_id>')
    .description('end an override before its time')
    .action(async (override_id: string, _options, command: Command) => {
      const session = await openSession(cli, command);
      const params = { path: { override_id } };
      session.showOne(await bodyOf(session.client.DELETE('/api/v1/overrides/{override_id}', { params })));
    });
  return overrides;
}

function addReads(overrides: Command, cli: Cli): void {
  listOptions(overrides.command('list'))
    .description('list overrides, newest first')
    .option('--policy <id>', 'only those of this policy')
    .option('--principal <id>', 'only those of the counters of this principal')
    .option('--active', 'only those in force now')
    .action(async (options, command: Command) => {
      const session = await openSession(cli, command);
      const filter = {
        ...(options.policy && { policy_id: options.policy }),
        ...(options.principal && { principal_id: options.principal }),
        ...(options.active && { active: 'true' as const }),
      };
      const items = await firstItems(session, limitOf(options), (page) =>
        bodyOf(session.client.GET('/api/v1/overrides', { params: { query: { ...filter, ...page } } })),
      );
      session.showList(items, COLUMNS);
    });

  overrides
    .command('show <override_id>')
    .description('show an override')
    .action(async (override_id: string, _options, command: Command) => {
      const session = await openSession(cli, command);
      const params = { path: { override_id } };
      session.showOne(await bodyOf(session.client.GET('/api/v1/overrides/{override_id}', { params })));
    });
}

function addCreate(overrides: Command, cli: Cli): void {
  overrides
    .command('create <policy_id>')
    .description('give one counter of a policy another limit for a while')
    .option('--principal <id>', 'whose counter, if each principal has one')
    .option('--key <id>', 'whose counter, if each key has one')
    .requiredOption('--limit-usd <amount>', 'the limit meanwhile, in dollars', (text) => parseMicroUsd(text))
    .requiredOption('--reason <text>', 'why')
    .option('--for <duration>', 'for how long, such as 12h or 7d; at most 366 days', parseDuration)
    .option('--until <time>', 'instead of --for: when it ends', parseTime(cli.now))
    .addHelpText(
      'after',
      '\nExamples:\n  weighbridge overrides create pol_… --principal ada@example.com --limit-usd 200 --for 7d --reason "evaluation for the launch"\n  weighbridge overrides create pol_… --limit-usd 5000 --until 2030-01-31 --reason "year end"',
    )
    .action(async (policy_id: string, options, command: Command) => {
      const { principal, key, limitUsd, reason, for: duration, until } = options;
      if ((duration === undefined) === (until === undefined)) {
        throw new UsageError('Give the end by either --for or --until.');
      }
      const session = await openSession(cli, command);
      const body = {
        policy_id,
        ...(principal !== undefined && { principal_id: principal }),
        ...(key !== undefined && { key_id: key }),
        limit_micro_usd: limitUsd,
        reason,
        ...(until === undefined ? { duration_seconds: duration } : { ends_at: until }),
      };
      session.showOne(await bodyOf(session.client.POST('/api/v1/overrides', { body })));
    });
}

function addUpdate(overrides: Command, cli: Cli): void {
  overrides
    .command('update <override_id>')
    .description('change the given fields of an override that has not ended')
    .option('--limit-usd <amount>', 'the limit meanwhile, in dollars', (text) => parseMicroUsd(text))
    .option('--reason <text>', 'why')
    .option('--until <time>', 'when it ends: a time, or a duration from now', parseTime(cli.now))
    .action(async (override_id: string, options, command: Command) => {
      if (Object.keys(options).length === 0) {
        throw new UsageError('Nothing to change. Give at least one option.');
      }
      const body = {
        ...(options.limitUsd !== undefined && { limit_micro_usd: options.limitUsd }),
        ...(options.reason !== undefined && { reason: options.reason }),
        ...(options.until !== undefined && { ends_at: options.until }),
      };
      const session = await openSession(cli, command);
      const params = { path: { override_id } };
      session.showOne(
        await bodyOf(session.client.PATCH('/api/v1/overrides/{override_id}', { params, body })),
      );
    });
}
