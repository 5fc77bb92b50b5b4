import type { WebhookEventType } from '@weighbridge/ledger';
import type { TEST_EVENT } from './webhooks.schemas.ts';

export type EventData = Readonly<Record<string, unknown>>;
export type SentEventType = WebhookEventType | typeof TEST_EVENT;

/** An event with its names and links, as it is sent. */
export interface SentEvent {
  readonly id: string;
  readonly type: SentEventType;
  readonly at: Date;
  readonly data: EventData;
}

/** An event in words, as plain text: parts of it are names that anyone may have chosen. */
export interface Description {
  readonly title: string;
  readonly severity: 'critical' | 'error' | 'warning' | 'info';
  readonly facts: readonly (readonly [label: string, value: string])[];
  /** An absolute link to more. */
  readonly link: string | undefined;
}

const MAX_TEXT = 200;

export function describeEvent({ type, data }: SentEvent): Description {
  const { title, severity, facts } = DESCRIPTIONS[type](data);
  const link = typeof data.url === 'string' && /^https?:\/\//.test(data.url) ? data.url : undefined;
  return { title, severity, facts: facts.filter(([, value]) => value !== ''), link };
}

type Parts = Omit<Description, 'link'>;

const DESCRIPTIONS: Readonly<Record<SentEventType, (data: EventData) => Parts>> = {
  'budget.threshold': (data) => ({
    title: `${text(data.percent)} % of the budget is used: ${whose(data)}`,
    severity: 'warning',
    facts: budgetFacts(data),
  }),
  'budget.exhausted': (data) => ({
    title: `The budget is used up, requests are refused: ${whose(data)}`,
    severity: 'error',
    facts: budgetFacts(data),
  }),
  'connector.down': (data) => ({
    title: `The connector ${nameOf(data, 'connector')} gets no requests`,
    severity: 'critical',
    facts: [
      ['Why', text(data.reason)],
      ['Provider', text(data.provider)],
      ['Since', text(data.since)],
    ],
  }),
  'price.missing': (data) => ({
    title: `The model ${text(data.model)} can't be used: it has no price`,
    severity: 'warning',
    facts: [['Connector', nameOf(data, 'connector')]],
  }),
  'price.stale': (data) => ({
    title: `Prices of ${text(data.models)} models were last confirmed ${text(data.age_days)} days ago or earlier`,
    severity: 'warning',
    facts: [
      ['From', text(data.origin)],
      ['Oldest', `${text(data.model)} (${text(data.priced_at)})`],
    ],
  }),
  'usage.quarantined': (data) => ({
    title: 'Usage that the ledger refused waits in quarantine',
    severity: 'error',
    facts: [
      ['Reason', text(data.reason)],
      ['Entries', text(data.entries)],
      ['Producer', text(data.producer_id)],
    ],
  }),
  'usage.gap': (data) => ({
    title:
      data.kind === 'lost'
        ? `The proxy ${text(data.name)} is gone, and may have left usage in its spool`
        : `Usage of the proxy ${text(data.name)} is missing in the ledger`,
    severity: 'critical',
    facts: [
      ['Since', text(data.since)],
      ['Producer', text(data.producer_id)],
      ['Proxy', text(data.proxy_id)],
    ],
  }),
  'key.expiring': (data) => ({
    title: `The key ${nameOf(data, 'key')} expires at ${text(data.expires_at)}`,
    severity: 'warning',
    facts: [
      ['Principal', text(data.principal_id)],
      ['Key', text(data.key_id)],
    ],
  }),
  'feed.refused': (data) => ({
    title: 'The feed of prices could not be read; prices stay',
    severity: 'warning',
    facts: [
      ['Why', text(data.reason)],
      ['Feed', text(data.feed)],
    ],
  }),
  'webhook.test': (data) => ({
    title: `Messages of the webhook ${text(data.webhook_name)} arrive`,
    severity: 'info',
    facts: [],
  }),
};

function budgetFacts(data: EventData): [string, string][] {
  return [
    ['Policy', nameOf(data, 'policy')],
    ['Spent', spentOf(data)],
    ['Window', `${text(data.window)} from ${text(data.window_start)}`],
    ['Reset', text(data.reset)],
  ];
}

function spentOf(data: EventData): string {
  if (data.limit_requests !== undefined) return `${data.spent_requests} of ${data.limit_requests} requests`;
  if (data.limit_tokens !== undefined) return `${data.spent_tokens} of ${data.limit_tokens} tokens`;
  return `${dollars(data.spent_micro_usd)} of ${dollars(data.limit_micro_usd)}`;
}

/** Whose budget it is, by name. */
function whose(data: EventData): string {
  if (data.limit_id !== undefined) return whoseLimit(data);
  if (data.counter === 'key') return `the key ${nameOf(data, 'key')}`;
  if (data.counter === 'principal') return text(data.principal_id);
  return `the policy ${nameOf(data, 'policy')}`;
}

/** Counters of a limit by attribution that have no value. */
const SHARED: Readonly<Record<string, string>> = {
  others: ' for all others',
  unknown: ' for requests without attribution',
};

function whoseLimit(data: EventData): string {
  const named = data.value ?? (typeof data.value_sha256 === 'string' && `with SHA-256 ${data.value_sha256}`);
  const who = named || data.key_name || data.key_id || data.principal_id;
  const value = who ? ` for ${text(data.counter)} ${text(who)}` : (SHARED[text(data.counter)] ?? '');
  return `the limit ${text(data.limit_name ?? data.limit_id)}${value} of the policy ${nameOf(data, 'policy')}`;
}

function nameOf(data: EventData, kind: 'policy' | 'key' | 'connector'): string {
  return text(data[`${kind}_name`] ?? data[`${kind}_id`]);
}

function dollars(micro: unknown): string {
  if (typeof micro !== 'number') return 'unlimited';
  return `$${(micro / 1_000_000).toFixed(6).replace(/0{1,4}$/, '')}`;
}

/** Short, in one line, and without characters that are invisible or change the direction of text. */
function text(value: unknown): string {
  const line = String(value ?? '')
    .replace(/[\p{C}\p{Zl}\p{Zp}\s]+/gu, ' ')
    .trim();
  const characters = Array.from(line);
  return characters.length <= MAX_TEXT ? line : `${characters.slice(0, MAX_TEXT).join('')}…`;
}
