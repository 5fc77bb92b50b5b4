import {
  createOverride,
  endOverride,
  getOverride,
  listOverrides,
  updateOverride,
} from '@weighbridge/client/operations';
import { Command } from 'commander';
import { addCall, addList } from '../resources/calls.ts';
import { time, usd } from '../session/output.ts';
import type { Cli } from '../session/session.ts';
import { UsageError } from '../session/usageError.ts';

export function overridesCommand(cli: Cli): Command {
  const overrides = new Command('overrides').description('temporary limits for one counter');
  addList(overrides.command('list'), cli, listOverrides, {
    query: {
      active: { text: 'only those in force now' },
      limit_id: { flag: 'of-limit <id>', text: 'only those of this further limit' },
    },
    columns: [
      ['ID', (override) => override.id],
      ['POLICY', (override) => override.policy_name],
      ['PRINCIPAL', (override) => override.principal_id],
      ['KEY', (override) => override.key_id],
      ['OF LIMIT', (override) => override.limit_name],
      ['VALUE', (override) => override.value],
      ['LIMIT', (override) => usd(override.limit_micro_usd)],
      ['ACTIVE', (override) => override.active],
      ['ENDS', (override) => time(override.ended_at ?? override.ends_at)],
      ['REASON', (override) => override.reason],
      ['BY', (override) => override.created_by],
    ],
  });
  addCall(overrides.command('show <override_id>'), cli, getOverride);
  addCreate(overrides.command('create <policy_id>'), cli);
  addCall(overrides.command('update <override_id>'), cli, updateOverride, {
    flags: {
      limit_micro_usd: { text: 'the limit meanwhile, in dollars' },
      reason: { text: 'why' },
      ends_at: { flag: 'until <time>', text: 'when it ends: a time, or a duration from now' },
    },
  });
  addCall(overrides.command('end <override_id>'), cli, endOverride, {
    description: 'end an override before its time',
  });
  return overrides;
}

function addCreate(command: Command, cli: Cli): void {
  addCall(command, cli, createOverride, {
    flags: {
      principal_id: { text: 'whose counter, if each principal has one' },
      key_id: { text: 'whose counter, if each key has one' },
      limit_id: {
        flag: 'limit <name or id>',
        text: 'the counter is one of this further limit of the policy',
      },
      value: {
        text: 'with --limit: whose counter, if each value of attribution has one, such as a customer',
      },
      limit_micro_usd: { text: 'the limit meanwhile, in dollars' },
      reason: { text: 'why' },
      duration_seconds: {
        flag: 'for <duration>',
        text: 'for how long, such as 12h or 7d; at most 366 days',
      },
      ends_at: { flag: 'until <time>', text: 'instead of --for: when it ends' },
    },
    check: ({ for: duration, until }) => {
      if ((duration === undefined) === (until === undefined))
        throw new UsageError('Give the end by either --for or --until.');
    },
    examples: [
      'weighbridge overrides create pol_… --principal ada@example.com --limit-usd 200 --for 7d --reason "evaluation for the launch"',
      'weighbridge overrides create pol_… --limit-usd 5000 --until 2030-01-31 --reason "year end"',
      'weighbridge overrides create pol_… --limit "each customer" --value ann@example.com --limit-usd 0 --for 1d --reason abuse',
    ],
  });
}
