import type { components } from '@weighbridge/client';
import {
  createPolicy,
  deletePolicy,
  getPolicy,
  listPolicies,
  listPolicyCounters,
  updatePolicy,
} from '@weighbridge/client/operations';
import { Command, InvalidArgumentError } from 'commander';
import { addCall, addList } from '../resources/calls.ts';
import type { Flags } from '../resources/flags.ts';
import { CACHE } from '../resources/parsers.ts';
import { type Column, time, usd } from '../session/output.ts';
import type { Cli } from '../session/session.ts';

type Policy = components['schemas']['Policy'];
type Counter = components['schemas']['PolicyCounter'];
type OnExhausted = components['schemas']['OnExhausted'];

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

const FLAGS: Flags<keyof components['schemas']['PolicyChanges']> = {
  limit_micro_usd: [
    { text: 'limit per window in dollars, such as 12.50, or unlimited', word: 'unlimited' },
    {
      flag: 'limit-micro-usd <n>',
      text: 'the same in millionths of a dollar, as in the API, or unlimited',
      word: 'unlimited',
      read: microUsd,
    },
  ],
  hard_allow_fields: {
    text: 'a request field that hard budgets let pass unbounded, such as "tools[].type=mcp"; may be repeated',
  },
  allowed_models: {
    flag: 'allow <pattern>',
    text: 'an allowed model; * matches any text; may be repeated',
  },
  parent_policy_id: { flag: 'parent <policy_id>' },
  default_for: { flag: 'default-for <kind>' },
  enforcement: { flag: 'enforcement <mode>' },
  foreign_objects: { flag: 'foreign-objects <rule>' },
  auto_cache: { no: 'prompts are cached where requests mark them' },
  queue_ms: { text: 'how long a request waits for an account at its limit' },
  priority: { text: 'the order of those that wait, 0 to 9: a higher one first' },
  self_service: { no: 'only operators assign it' },
  attribution_headers: {
    flag: 'attribution-headers <json>',
    text: 'headers that say whom requests are for, as JSON that replaces all: {"x-openwebui-user-email": "user"}; or none',
    word: 'none',
  },
  user_from_body: { no: 'bodies name no user' },
  on_exhausted: {
    flag: 'on-exhausted <profile_id,policy_id>',
    text: 'where requests go once the budget is used up: by this profile, under this policy; or none: they are refused',
    read: onExhausted,
  },
  cache: CACHE,
  limits: {
    flag: 'limits <json>',
    text: 'further limits, a JSON list as in the API that replaces all; or none',
    word: 'none',
  },
  thresholds: {
    flag: 'threshold <percent>',
    text: 'a percentage of the limit to report on; may be repeated, or none',
    word: 'none',
  },
};

export function policiesCommand(cli: Cli): Command {
  const policies = new Command('policies').description('budgets and rules for keys');
  addList(policies.command('list'), cli, listPolicies, {
    query: { parent_policy_id: { flag: 'parent <id>' } },
    columns: COLUMNS,
  });
  addCall(policies.command('show <policy_id>'), cli, getPolicy);
  addCounters(policies.command('counters <policy_id>'), cli);
  addCall(policies.command('create <name>'), cli, createPolicy, {
    flags: FLAGS,
    examples: [
      'weighbridge policies create team --limit-usd 50 --window month --counter-scope policy',
      'weighbridge policies create trial --limit-usd 0.50 --window day --allow "openai/*" --self-service',
    ],
  });
  addCall(policies.command('update <policy_id>'), cli, updatePolicy, {
    flags: FLAGS,
    examples: ['weighbridge policies update pol_… --limit-usd unlimited --enforcement shadow'],
  });
  addCall(policies.command('delete <policy_id>'), cli, deletePolicy, {
    description: 'delete a policy that governs no one',
  });
  return policies;
}

function addCounters(command: Command, cli: Cli): void {
  addList(command, cli, listPolicyCounters, {
    description: 'what each key or principal, or all together, have spent and may still spend in this window',
    query: {
      sort: { text: 'the order', default: '-spent' },
      principal_id: { text: 'only counters that this principal counts in' },
      // --limit is how many items.
      limit_id: { flag: 'of-limit <name or id>', text: 'the counters of this further limit' },
      value: { text: 'with --of-limit: the counter of this value of attribution' },
    },
    columns: ({ counter_scope, limit_id }, _options, items) => [
      ...(limit_id !== null && !OWNED.has(counter_scope)
        ? [['VALUE', valueText] satisfies Column<Counter>]
        : [['PRINCIPAL', (counter) => counter.principal_id] satisfies Column<Counter>]),
      ...(counter_scope === 'key' ? [['KEY', keyText] satisfies Column<Counter>] : []),
      ['SPENT', (counter) => usd(counter.spent_micro_usd)],
      ['LEASED', (counter) => usd(counter.leased_micro_usd)],
      ['LIMIT', (counter) => usd(counter.limit_micro_usd)],
      ['HEADROOM', (counter) => usd(counter.headroom_micro_usd)],
      ...(items.some(({ override }) => override)
        ? [['LIMIT ENDS', ({ override }) => time(override?.ends_at ?? null)] satisfies Column<Counter>]
        : []),
      ['LAST USED', ({ last_used_at }) => time(last_used_at)],
    ],
    after: (session, _items, { reset }) => {
      if (reset !== null) session.err(`The window ends at ${time(reset)}.`);
    },
  });
}

/** The scopes whose counters are of keys and principals. */
const OWNED: ReadonlySet<string> = new Set(['key', 'principal', 'policy']);

function valueText({ counter, value, value_sha256 }: Counter): string {
  return value ?? (value_sha256 === null ? `(${counter})` : `(SHA-256 ${value_sha256})`);
}

function keyText({ key_id, key_name }: Counter): string {
  return key_name === null ? (key_id ?? '') : `${key_name} (${key_id})`;
}

function onExhausted(text: string): OnExhausted {
  const [, profile_id, policy_id] = /^(prf_[^,]+),(pol_[^,]+)$/.exec(text) ?? [];
  if (profile_id !== undefined && policy_id !== undefined) return { profile_id, policy_id };
  throw new InvalidArgumentError(
    'It must be the ids of a profile and a policy, such as prf_…,pol_…, or none.',
  );
}

function microUsd(text: string): number {
  if (/^\d{1,15}$/.test(text)) return Number(text);
  throw new InvalidArgumentError('It must be a whole number of micro-USD, or unlimited.');
}
