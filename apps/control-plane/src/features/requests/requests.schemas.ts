import { REFUSING_LIMITS } from '@weighbridge/budget';
import {
  CLASS_NAMES,
  MAX_LIMIT_MICRO_USD,
  MEDIA_CLASSES,
  mediaTokenFields,
  PART_OF,
  TEXT_CLASSES,
  TOKEN_FIELDS,
  type TokenClass,
} from '@weighbridge/domain';
import { type Static, Type } from 'typebox';
import { PageQuery } from '../../shared/paging.ts';
import {
  ByName,
  DateTime,
  MicroUsd,
  Nullable,
  OneOf,
  QueryBoolean,
  QueryInteger,
  Strict,
} from '../../shared/schemas.ts';
import { Money, PriceSource } from '../catalog/prices.schemas.ts';
import { LedgerFilterQuery, QueryText } from '../spend/ledgerQuery.ts';
import { Correction } from './corrections.schemas.ts';

const OUTCOMES = [
  'success',
  'upstream_error',
  'upstream_unreachable',
  'interrupted',
  'client_gone',
  'unknown',
] as const;

const Text = Type.Optional(Type.String());
const Count = Type.Integer();

/** Of a request. That of an attempt is never `refused`. */
const REQUEST_OUTCOMES = [...OUTCOMES, 'refused'] as const;

export const Attempt = Type.Object(
  {
    event_id: Type.String(),
    model_requested: Type.String(),
    model: Type.String({ description: 'The model that answered.' }),
    provider: Type.String(),
    connector_id: Type.String(),
    connector_name: Nullable(Type.String({ description: 'Null if no such connector is known.' })),
    outcome: Type.String({ description: `One of ${OUTCOMES.join(', ')}.` }),
    http_status: Type.Integer({ description: "The vendor's status; 0 if it sent no response." }),
    streamed: Type.Boolean(),
    cache_hit: Type.Boolean({
      description: 'Answered from the response cache: no request was sent to a vendor, and it cost nothing.',
    }),
    input_tokens: Type.Integer({ description: 'Input tokens of all modalities that were not cached.' }),
    cache_read_tokens: Count,
    cache_write_tokens: Count,
    cache_write_1h_tokens: Count,
    output_tokens: Type.Integer({ description: 'Output tokens of all modalities.' }),
    ...mediaTokenFields((media) => Type.Integer({ description: `Part of ${TOKEN_FIELDS[PART_OF[media]]}.` })),
    service_tier: Nullable(
      Type.String({ description: 'Such as priority; null: what the list price covers.' }),
    ),
    speed: Nullable(Type.String({ description: 'Such as fast; null: what the list price covers.' })),
    geography: Nullable(Type.String({ description: 'Such as us; null: what the list price covers.' })),
    tool_uses: ByName(Count, {
      title: 'ToolUses',
      description: "How often the vendor ran its own tools, by the tool's name.",
    }),
    price_incomplete: Type.Boolean({
      description: 'The price lacked something that it used: that was charged at the dearest known price.',
    }),
    unpriced: Type.Array(Type.String(), {
      description: 'What the price lacked, such as service_tier:priority, tool:web_search or output_audio.',
    }),
    priced_model: Nullable(
      Type.String({ description: 'The model whose price applied, if it is not the one in `model`.' }),
    ),
    dropped: Type.Array(Type.String(), {
      description:
        'What of the request the vendor did not get as it was sent, as in `x-svc-dropped`: `metadata.user_id changed`. Of more than eight, the last entry says how many more there are.',
    }),
    skipped: Type.Array(Type.String(), {
      description:
        'Models that the request passed over before this attempt, each with the further limit that had no headroom for it, as in `x-svc-skipped`: `mock/large large models`. Of more than three, the last entry says how many more there are.',
    }),
    cost_micro_usd: MicroUsd,
    cost_nano_usd: Type.String({ description: 'The exact cost, as a decimal integer.' }),
    price_source: PriceSource,
    price_version: Type.Integer({ description: 'The version of that price.' }),
    estimated: Type.Boolean(),
    admitted_at: DateTime,
    settled_at: DateTime,
    first_byte_ms: Nullable(Type.Number()),
    duration_ms: Type.Number(),
    response_id: Nullable(Type.String({ description: "The vendor's id of a stored response." })),
  },
  { title: 'Attempt' },
);
export type Attempt = Static<typeof Attempt>;

const Feedback = Type.Object(
  {
    score: Type.Number({ description: 'From 0 to 1.' }),
    comment: Nullable(Type.String({ description: 'Shown only to operators.' })),
    given_at: DateTime,
  },
  { title: 'Feedback', description: "The caller's feedback on the response, sent with POST /v1/feedback." },
);
export type Feedback = Static<typeof Feedback>;

/** The attribution that a request was recorded with. */
const RequestAttribution = Type.Object(
  {
    user: Text,
    team: Text,
    project: Text,
    env: Text,
    labels: Type.Optional(ByName(Type.String(), { title: 'RequestLabels' })),
    workload_type: Text,
    namespace: Text,
    workload: Text,
    pod: Text,
    session_id: Text,
  },
  { title: 'RequestAttribution' },
);
const RequestPolicy = Type.Object(
  { policy_id: Type.String(), name: Nullable(Type.String()), window_start: DateTime },
  { title: 'RequestPolicy' },
);

const NullableAmount = (description: string) =>
  Nullable(Type.Integer({ minimum: 0, maximum: MAX_LIMIT_MICRO_USD, description }));

const RefusingCounter = Type.Object(
  {
    limit_id: Nullable(Type.String({ description: 'Of a further limit of the policy.' })),
    value: Nullable(
      Type.String({ description: 'Of a further limit: the value that the counter is of, such as a user.' }),
    ),
    limits: Type.String({ description: `What it limits: one of ${REFUSING_LIMITS.join(', ')}.` }),
    limit: Nullable(Type.Integer({ description: 'Requests or tokens; null for a budget.' })),
    spent: Nullable(
      Type.Integer({
        description: 'Of limit_requests and limit_tokens: what the counter had when the request was refused.',
      }),
    ),
    limit_micro_usd: NullableAmount('Of a budget.'),
    spent_micro_usd: NullableAmount('Of a budget, when the request was refused.'),
    estimate_micro_usd: NullableAmount('What the request might have cost.'),
    window_start: Nullable(DateTime),
    reset: Nullable(DateTime),
  },
  {
    title: 'RefusingCounter',
    description: "The counter whose limit it met. A parent policy's figures are shown only to operators.",
  },
);

const Refusal = Type.Object(
  {
    code: Type.String({ description: "The error's code; of a row that counts, the most frequent one." }),
    http_status: Type.Integer(),
    message: Type.String({ description: 'What the caller was told.' }),
    endpoint: Type.String({ description: 'The route, such as chat_completions.' }),
    policy_id: Nullable(
      Type.String({
        description: 'The policy whose limit it met; a parent policy is shown only to operators.',
      }),
    ),
    policy_name: Nullable(Type.String()),
    counter: Nullable(RefusingCounter),
    count: Type.Integer({
      minimum: 1,
      description:
        '1; or how many requests of the key were refused in the minute from `admitted_at` on beyond those with rows of their own.',
    }),
    by_code: ByName(Type.Integer({ minimum: 1 }), {
      title: 'RefusalsByCode',
      description: 'Those of `count` by the code of their error.',
    }),
  },
  { title: 'Refusal', description: 'Why this service refused the request.' },
);
export type Refusal = Static<typeof Refusal>;

export const RequestRecord = Type.Object(
  {
    request_id: Type.String({ description: 'Empty for a row that counts refused requests.' }),
    admitted_at: DateTime,
    outcome: Type.String({
      description: `One of ${REQUEST_OUTCOMES.join(', ')}: of its last attempt, unless it was refused.`,
    }),
    model_requested: Type.String({ description: 'Empty if it was refused before its model was read.' }),
    key_id: Type.String(),
    key_name: Nullable(Type.String()),
    principal_id: Type.String(),
    team_id: Nullable(
      Type.String({
        description:
          'The team of the principal when the request was admitted; null: none, or it is older than teams.',
      }),
    ),
    team_name: Nullable(Type.String()),
    attribution: RequestAttribution,
    policies: Type.Array(RequestPolicy, {
      description:
        'The policies whose buckets it counts in, the governing policy first; parent policies are shown only to operators.',
    }),
    cost_micro_usd: Type.Integer({ description: 'The cost of all attempts, including corrections.' }),
    refusal: Nullable(Refusal),
    attempts: Type.Array(Attempt, {
      description:
        'All attempts at vendors, in order; or the one hit of the response cache. None if it was refused before one.',
    }),
    corrections: Type.Array(Correction, {
      description: 'Later corrections of the cost, in the order in which they were recorded.',
    }),
    feedback: Nullable(Feedback),
  },
  { title: 'RequestRecord' },
);
export type RequestRecord = Static<typeof RequestRecord>;

const anyOf = (classes: readonly TokenClass[]) =>
  classes
    .map((one) => CLASS_NAMES[one])
    .join(', ')
    .replace(/, (\w+)$/, ' or $1');

const ClassCost = Type.Object(
  {
    class: Type.String({
      description: `${anyOf(TEXT_CLASSES)}; for other modalities ${anyOf(MEDIA_CLASSES)}; or tool:<name>.`,
    }),
    quantity: Type.Integer({ description: 'Tokens; or uses of the tool.' }),
    price: Money,
    cost_nano_usd: Type.String({
      description:
        'As a decimal integer. Rounded for the class alone: the cost of the attempt is rounded once.',
    }),
  },
  { title: 'ClassCost', description: 'The price is for a million tokens, or for one use of a tool.' },
);
export type ClassCost = Static<typeof ClassCost>;

const AttemptCost = Type.Object(
  {
    event_id: Type.String(),
    by_class: Nullable(
      Type.Array(ClassCost, {
        description:
          'The cost of the attempt by token class, by the version of the price that it was charged at. Null if that version does not give just this cost: something had no price, another model worked on the response, or the version is not on record.',
      }),
    ),
  },
  { title: 'AttemptCost' },
);
export type AttemptCost = Static<typeof AttemptCost>;

/** One request has what a list would have to look up for each row. */
export const RequestDetail = Type.Object(
  {
    ...RequestRecord.properties,
    costs: Type.Array(AttemptCost, { description: 'Of each attempt, in order.' }),
  },
  { title: 'RequestDetail' },
);
export type RequestDetail = Static<typeof RequestDetail>;

export const RequestListQuery = Strict({
  ...PageQuery,
  ...LedgerFilterQuery,
  request_id: QueryText(),
  session_id: QueryText('The whole X-Svc-Session-Id.'),
  outcome: Type.Optional(
    OneOf(REQUEST_OUTCOMES, { title: 'Outcome', description: 'Of an attempt; or refused.' }),
  ),
  min_cost_micro_usd: Type.Optional(
    QueryInteger({
      minimum: 0,
      maximum: MAX_LIMIT_MICRO_USD,
      description: 'Only requests with an attempt that cost at least this much.',
    }),
  ),
  estimated: Type.Optional(QueryBoolean('Whether the usage of an attempt was estimated.')),
  price_incomplete: Type.Optional(QueryBoolean('Whether the price of an attempt lacked something.')),
});
export type RequestListQuery = Static<typeof RequestListQuery>;
