import { type Static, Type } from 'typebox';
import { DateTime, MicroUsd, Nullable, OneOf } from '../../shared/schemas.ts';
import { CounterScope } from '../policies/policies.schemas.ts';

const SummarySums = Type.Object(
  {
    from: DateTime,
    cost_micro_usd: MicroUsd,
    requests: Type.Integer(),
    attempts: Type.Integer(),
    failed_attempts: Type.Integer(),
    input_tokens: Type.Integer(),
    cache_read_tokens: Type.Integer({ description: "Input that the vendor's cache had." }),
    cache_write_tokens: Type.Integer(),
    output_tokens: Type.Integer(),
  },
  { title: 'SummarySums' },
);
export type SummarySums = Static<typeof SummarySums>;

const SummaryDay = Type.Object(
  { from: DateTime, cost_micro_usd: MicroUsd, requests: Type.Integer() },
  { title: 'SummaryDay' },
);
export type SummaryDay = Static<typeof SummaryDay>;

const SummaryBudget = Type.Object(
  {
    policy_id: Type.String(),
    policy_name: Type.String(),
    counter_scope: CounterScope,
    principal_id: Nullable(
      Type.String({ description: "Whose counter it is; null: a team's or everyone's." }),
    ),
    key_id: Nullable(Type.String({ description: 'Whose counter it is, if each key has one.' })),
    key_name: Nullable(Type.String()),
    team_id: Nullable(Type.String()),
    team_name: Nullable(Type.String()),
    limit_micro_usd: Nullable(Type.Integer({ description: 'Null: unlimited.' })),
    spent_micro_usd: MicroUsd,
    window_start: DateTime,
    reset: Nullable(DateTime),
  },
  { title: 'SummaryBudget' },
);
export type SummaryBudget = Static<typeof SummaryBudget>;

const Latency = Type.Object(
  { p50: Type.Number(), p95: Type.Number() },
  {
    title: 'SummaryLatency',
    description: 'Milliseconds of successful answers that no cache gave, percentiles.',
  },
);

const SummaryRecent = Type.Object(
  {
    since: Nullable(DateTime),
    answers: Type.Integer({
      description: 'The newest successful answers of the last 24 hours that were looked at; at most 10,000.',
    }),
    cache_hits: Type.Integer({ description: 'Of them, those that the response cache had.' }),
    // Of streams, until their first byte, with what the vendor took. Null: none was answered.
    first_token_ms: Nullable(Latency),
    duration_ms: Nullable(Latency),
  },
  { title: 'SummaryRecent' },
);
export type SummaryRecent = Static<typeof SummaryRecent>;

const SummaryOverhead = Type.Object(
  {
    p50_ms: Type.Number(),
    p95_ms: Type.Number(),
    requests: Type.Integer(),
    proxies: Type.Integer({ description: 'Those that reported it.' }),
    window_ms: Type.Integer({
      description: 'How long ago the first of these requests may have been: some minutes.',
    }),
  },
  {
    title: 'SummaryOverhead',
    description:
      'The time that the proxies added until a response began, over all of them: percentiles, estimated from histograms. Null without a request in the last minutes, and without a role that reads all.',
  },
);

const ATTENTION_KINDS = [
  'no_proxy',
  'proxies_silent',
  'proxies_lost',
  'spools_filling',
  'ledger_behind',
  'ledger_gap',
  'quarantine',
  'connector_unusable',
  'connector_down',
  'price_missing',
  'prices_old',
  'feed_failing',
  'feed_changes_held',
  'budget_low',
  'keys_expiring',
] as const;

const Attention = Type.Object(
  {
    kind: OneOf(ATTENTION_KINDS, { title: 'AttentionKind' }),
    level: OneOf(['act', 'look'], {
      title: 'AttentionLevel',
      description: 'act: requests or records suffer; look: they may soon.',
    }),
    message: Type.String(),
    count: Type.Integer({ description: 'How many of what the kind says.' }),
    resource_ids: Type.Array(Type.String(), { description: 'The first of them, at most 10.' }),
  },
  { title: 'Attention' },
);
export type Attention = Static<typeof Attention>;

export const Summary = Type.Object(
  {
    reach: OneOf(['all', 'teams', 'own'], {
      title: 'SummaryReach',
      description: 'Whose usage it is: of all; of your teams and your own; your own.',
    }),
    today: SummarySums,
    month: SummarySums,
    days: Type.Array(SummaryDay, { description: 'Each day of the month until today, the first one first.' }),
    budgets: Type.Array(SummaryBudget, {
      description:
        'For a role that reads all: the ten counters closest to their limits. Else: your own, and those of your teams.',
    }),
    recent: SummaryRecent,
    overhead: Nullable(SummaryOverhead),
    attention: Type.Array(Attention, { description: 'What needs attention, the most urgent first.' }),
    bucket_as_of: Type.String({
      format: 'date-time',
      description: 'The watermark: all usage that proxies settled before this time is included.',
    }),
    complete: Type.Boolean({
      description: 'Whether no usage of the month up to bucket_as_of is known to be missing.',
    }),
  },
  { title: 'Summary' },
);
export type Summary = Static<typeof Summary>;
