import type { SpendDimension, SpendRow } from '@weighbridge/ledger';
import type { Range } from './ledgerQuery.ts';
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

/** What a day's requests of one kind cost: a row of the dataset. */
export interface Charge {
  readonly day: Range;
  readonly row: SpendRow;
  readonly of: (dimension: Dimension) => string | null;
  readonly nameOf: (dimension: Dimension) => string | null;
}

/** A decimal is in billionths. */
export type FocusColumn =
  | readonly [name: string, type: 'text', value: (charge: Charge) => string | null]
  | readonly [name: string, type: 'time', value: (charge: Charge) => Date]
  | readonly [name: string, type: 'decimal', value: (charge: Charge) => bigint]
  | readonly [name: string, type: 'count', value: (charge: Charge) => number];

const UNKNOWN = 'unknown';
const cost = ({ row }: Charge) => row.cost;
const provider = ({ of }: Charge) => of('provider') || UNKNOWN;
const quantity = ({ row }: Charge) => BigInt(tokens(row)) * 1_000_000_000n;

/**
 * The columns of FOCUS 1.2 (https://focus.finops.org/focus-specification/v1-2/): all that are mandatory, and those others that the
 * ledger has values for. A charge is what a day's requests of one kind cost. The account is the connector, that is the one that
 * the vendor's invoice is for; the sub account is the team; the resource is the key. Columns with `x_` are our own.
 */
export const FOCUS_COLUMNS: readonly FocusColumn[] = [
  ['BilledCost', 'decimal', cost],
  ['BillingAccountId', 'text', ({ of }) => of('connector') || 'none'],
  ['BillingAccountName', 'text', ({ nameOf }) => nameOf('connector')],
  ['BillingCurrency', 'text', () => 'USD'],
  ['BillingPeriodEnd', 'time', ({ day }) => month(day.from, 1)],
  ['BillingPeriodStart', 'time', ({ day }) => month(day.from, 0)],
  ['ChargeCategory', 'text', () => 'Usage'],
  ['ChargeClass', 'text', () => null],
  ['ChargeDescription', 'text', (charge) => `Tokens of ${charge.of('model') || UNKNOWN}`],
  ['ChargeFrequency', 'text', () => 'Usage-Based'],
  ['ChargePeriodEnd', 'time', ({ day }) => day.to],
  ['ChargePeriodStart', 'time', ({ day }) => day.from],
  ['ConsumedQuantity', 'decimal', quantity],
  ['ConsumedUnit', 'text', () => 'Tokens'],
  // What is charged is the account's own price; the ledger has no cost by another one.
  ['ContractedCost', 'decimal', cost],
  ['EffectiveCost', 'decimal', cost],
  ['InvoiceIssuerName', 'text', provider],
  ['ListCost', 'decimal', cost],
  ['PricingCategory', 'text', () => 'Standard'],
  ['PricingQuantity', 'decimal', quantity],
  ['PricingUnit', 'text', () => 'Tokens'],
  ['ProviderName', 'text', provider],
  ['PublisherName', 'text', provider],
  ['ResourceId', 'text', ({ of }) => of('key')],
  ['ResourceName', 'text', ({ nameOf }) => nameOf('key')],
  ['ResourceType', 'text', ({ of }) => (of('key') === null ? null : 'API key')],
  ['ServiceCategory', 'text', () => 'AI and Machine Learning'],
  ['ServiceName', 'text', ({ of }) => of('model') || UNKNOWN],
  ['ServiceSubcategory', 'text', () => 'Generative AI'],
  ['SubAccountId', 'text', ({ of }) => of('team_id')],
  ['SubAccountName', 'text', ({ nameOf }) => nameOf('team_id')],
  ['Tags', 'text', tags],
  ['x_PolicyName', 'text', ({ nameOf }) => nameOf('policy')],
  ['x_Requests', 'count', ({ row }) => row.requests],
  ['x_Attempts', 'count', ({ row }) => row.attempts],
  ['x_EstimatedAttempts', 'count', ({ row }) => row.estimatedRequests],
  ['x_InputTokens', 'count', ({ row }) => row.inputTokens],
  ['x_CacheReadTokens', 'count', ({ row }) => row.cacheReadTokens],
  ['x_CacheWriteTokens', 'count', ({ row }) => row.cacheWriteTokens + row.cacheWrite1hTokens],
  ['x_OutputTokens', 'count', ({ row }) => row.outputTokens],
];

export function focusCharge(day: Range, row: SpendRow, names: SpendNames): Charge {
  const of = (dimension: Dimension) => row.group[FOCUS_DIMENSIONS.indexOf(dimension)] ?? null;
  const nameOf = (dimension: Dimension) => names.get(dimension)?.get(of(dimension) ?? '') ?? null;
  return { day, row, of, nameOf };
}

function tags({ of }: Charge): string | null {
  const given = TAGS.map((name) => [name, of(name)] as const).filter(([, value]) => value !== null);
  return given.length > 0 ? JSON.stringify(Object.fromEntries(given)) : null;
}

function tokens(row: SpendRow): number {
  const { inputTokens, cacheReadTokens, cacheWriteTokens, cacheWrite1hTokens, outputTokens } = row;
  return inputTokens + cacheReadTokens + cacheWriteTokens + cacheWrite1hTokens + outputTokens;
}

function month(at: Date, offset: number): Date {
  return new Date(Date.UTC(at.getUTCFullYear(), at.getUTCMonth() + offset, 1));
}
