import type { SpendDimension, SpendRow } from '@weighbridge/ledger';
import type { Range } from './ledgerQuery.ts';
import { record, text } from './spendCsv.ts';
import type { SpendNames } from './spendNames.ts';

/** What the rows of a day are told apart by. */
export const FOCUS_DIMENSIONS = [
  'connector',
  'provider',
  'model',
  'service_tier',
  'team_id',
  'principal',
  'key',
  'policy',
  'user',
  'team',
  'project',
  'env',
] as const satisfies readonly SpendDimension[];
type Dimension = (typeof FOCUS_DIMENSIONS)[number];

/** Who a charge is for, in the column Tags. */
const TAGS = ['principal', 'policy', 'user', 'team', 'project', 'env', 'service_tier'] as const;

interface Charge {
  readonly day: Range;
  readonly row: SpendRow;
  readonly of: (dimension: Dimension) => string | null;
  readonly nameOf: (dimension: Dimension) => string | null;
}
type Column = readonly [name: string, value: (charge: Charge) => string | null];

const UNKNOWN = 'unknown';
const cost = ({ row }: Charge) => dollars(row.cost);
const provider = ({ of }: Charge) => of('provider') || UNKNOWN;
const quantity = ({ row }: Charge) => String(tokens(row));

/**
 * The columns of FOCUS 1.2 (https://focus.finops.org/focus-specification/v1-2/): all that are mandatory, and those others that the
 * ledger has values for. A charge is what a day's requests of one kind cost. The account is the connector, that is the one that
 * the vendor's invoice is for; the sub account is the team; the resource is the key. Columns with `x_` are our own.
 */
const COLUMNS: readonly Column[] = [
  ['BilledCost', cost],
  ['BillingAccountId', ({ of }) => of('connector') || 'none'],
  ['BillingAccountName', ({ nameOf }) => nameOf('connector')],
  ['BillingCurrency', () => 'USD'],
  ['BillingPeriodEnd', ({ day }) => month(day.from, 1)],
  ['BillingPeriodStart', ({ day }) => month(day.from, 0)],
  ['ChargeCategory', () => 'Usage'],
  ['ChargeClass', () => null],
  ['ChargeDescription', (charge) => `Tokens of ${charge.of('model') || UNKNOWN}`],
  ['ChargeFrequency', () => 'Usage-Based'],
  ['ChargePeriodEnd', ({ day }) => time(day.to)],
  ['ChargePeriodStart', ({ day }) => time(day.from)],
  ['ConsumedQuantity', quantity],
  ['ConsumedUnit', () => 'Tokens'],
  // What is charged is the account's own price; the ledger has no cost by another one.
  ['ContractedCost', cost],
  ['EffectiveCost', cost],
  ['InvoiceIssuerName', provider],
  ['ListCost', cost],
  ['PricingCategory', () => 'Standard'],
  ['PricingQuantity', quantity],
  ['PricingUnit', () => 'Tokens'],
  ['ProviderName', provider],
  ['PublisherName', provider],
  ['ResourceId', ({ of }) => of('key')],
  ['ResourceName', ({ nameOf }) => nameOf('key')],
  ['ResourceType', ({ of }) => (of('key') === null ? null : 'API key')],
  ['ServiceCategory', () => 'AI and Machine Learning'],
  ['ServiceName', ({ of }) => of('model') || UNKNOWN],
  ['ServiceSubcategory', () => 'Generative AI'],
  ['SubAccountId', ({ of }) => of('team_id')],
  ['SubAccountName', ({ nameOf }) => nameOf('team_id')],
  ['Tags', tags],
  ['x_PolicyName', ({ nameOf }) => nameOf('policy')],
  ['x_Requests', ({ row }) => String(row.requests)],
  ['x_Attempts', ({ row }) => String(row.attempts)],
  ['x_EstimatedAttempts', ({ row }) => String(row.estimatedRequests)],
  ['x_InputTokens', ({ row }) => String(row.inputTokens)],
  ['x_CacheReadTokens', ({ row }) => String(row.cacheReadTokens)],
  ['x_CacheWriteTokens', ({ row }) => String(row.cacheWriteTokens + row.cacheWrite1hTokens)],
  ['x_OutputTokens', ({ row }) => String(row.outputTokens)],
];

export function focusHeader(): string {
  return record(COLUMNS.map(([name]) => name));
}

export function focusRecord(day: Range, row: SpendRow, names: SpendNames): string {
  const of = (dimension: Dimension) => row.group[FOCUS_DIMENSIONS.indexOf(dimension)] ?? null;
  const nameOf = (dimension: Dimension) => names.get(dimension)?.get(of(dimension) ?? '') ?? null;
  const charge = { day, row, of, nameOf };
  return record(COLUMNS.map(([, value]) => field(value(charge))));
}

/** Only a number may begin with a sign: a spreadsheet would run other text as a formula. */
function field(value: string | null): string {
  if (value === null) return '';
  return /^-?\d+(\.\d+)?$/.test(value) ? value : text(value);
}

function tags({ of }: Charge): string | null {
  const given = TAGS.map((name) => [name, of(name)] as const).filter(([, value]) => value !== null);
  return given.length > 0 ? JSON.stringify(Object.fromEntries(given)) : null;
}

function tokens(row: SpendRow): number {
  const { inputTokens, cacheReadTokens, cacheWriteTokens, cacheWrite1hTokens, outputTokens } = row;
  return inputTokens + cacheReadTokens + cacheWriteTokens + cacheWrite1hTokens + outputTokens;
}

/** Exact: a nano-dollar has nine places. */
function dollars(nano: bigint): string {
  const digits = String(nano < 0n ? -nano : nano).padStart(10, '0');
  const fraction = digits.slice(-9).replace(/0+$/, '');
  return `${nano < 0n ? '-' : ''}${digits.slice(0, -9)}${fraction === '' ? '' : `.${fraction}`}`;
}

function time(at: Date): string {
  return at.toISOString().replace('.000Z', 'Z');
}

function month(at: Date, offset: number): string {
  return time(new Date(Date.UTC(at.getUTCFullYear(), at.getUTCMonth() + offset, 1)));
}
