import type { components } from '@weighbridge/client';
import { type Column, formatTable, price, printable, time, usdOfNano } from '../session/output.ts';
import type { Session } from '../session/session.ts';

type Detail = components['schemas']['RequestDetail'];
type Attempt = Detail['attempts'][number];
type Correction = Detail['corrections'][number];
type ClassCost = components['schemas']['ClassCost'];

/** A request's fields, then a table for each of its lists. */
export function showRequest(session: Session, detail: Detail): void {
  const { attempts, costs, corrections, policies, attribution, refusal, feedback, ...fields } = detail;
  session.showOne(detail, {
    ...fields,
    policies: policies.map(({ policy_id, name }) => named(name, policy_id)),
    attribution: attributionOf(attribution),
    refusal: refusal && `${refusal.http_status} ${refusal.code}: ${refusal.message}`,
    feedback: feedback && [String(feedback.score), ...(feedback.comment ? [feedback.comment] : [])],
  });
  if (session.json) return;
  const numbers = new Map(attempts.map(({ event_id }, at) => [event_id, at + 1]));
  const table = <T>(title: string, items: readonly T[], columns: readonly Column<T>[]) => {
    const used = columns.filter(([, value]) => items.some((item) => printable(value(item)) !== '-'));
    if (items.length > 0) session.out(`\n${title}\n${formatTable(items, used)}`);
  };
  table('Attempts', attempts, [['#', ({ event_id }) => numbers.get(event_id)], ...ATTEMPT]);
  const rows = costs.flatMap(({ event_id, by_class }) =>
    (by_class ?? []).map((cost) => ({ ...cost, attempt: numbers.get(event_id) })),
  );
  table('Costs', rows, [['#', ({ attempt }) => attempt], ...COST]);
  table('Corrections', corrections, [['#', ({ corrects }) => numbers.get(corrects)], ...CORRECTION]);
}

const ATTEMPT: readonly Column<Attempt>[] = [
  ['MODEL', ({ model }) => model],
  ['CONNECTOR', ({ connector_name, connector_id }) => connector_name ?? connector_id],
  ['OUTCOME', ({ outcome, cache_hit }) => (cache_hit ? `${outcome}, from the cache` : outcome)],
  ['STATUS', ({ http_status }) => http_status || null],
  ['INPUT', ({ input_tokens }) => input_tokens],
  ['CACHE READ', ({ cache_read_tokens }) => cache_read_tokens],
  ['CACHE WRITE', (one) => one.cache_write_tokens + one.cache_write_1h_tokens],
  ['OUTPUT', ({ output_tokens }) => output_tokens],
  ['COST', ({ cost_nano_usd }) => usdOfNano(cost_nano_usd)],
  ['ESTIMATED', ({ estimated }) => estimated],
  ['MS', ({ duration_ms }) => duration_ms],
  ['PRICE', ({ price_source, price_version }) => `${price_source} ${price_version}`],
  ['NOT IN THE PRICE', ({ unpriced }) => unpriced],
  ['DROPPED', ({ dropped }) => dropped],
  ['EVENT', ({ event_id }) => event_id],
];

const COST: readonly Column<ClassCost>[] = [
  ['CLASS', (cost) => cost.class],
  ['QUANTITY', ({ quantity }) => quantity],
  ['PRICE', (cost) => `${price(cost.price)} for ${cost.class.startsWith('tool:') ? 'one' : '1M'}`],
  ['COST', ({ cost_nano_usd }) => usdOfNano(cost_nano_usd)],
];

const CORRECTION: readonly Column<Correction>[] = [
  ['AMOUNT', ({ amount_nano_usd }) => usdOfNano(amount_nano_usd)],
  ['TIME', ({ recorded_at }) => time(recorded_at)],
  ['REASON', ({ reason }) => reason],
];

function named(name: string | null, id: string): string {
  return name === null ? id : `${name} (${id})`;
}

function attributionOf({ labels = {}, ...fields }: Detail['attribution']): string[] {
  const all = [
    ...Object.entries(fields),
    ...Object.entries(labels).map(([key, value]) => [`label ${key}`, value]),
  ];
  return all.map(([field, value]) => `${field}=${value}`);
}
