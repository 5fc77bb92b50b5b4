import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { parquetRows } from '../../../test/parquet.ts';
import { startTestApi, type TestApi } from '../../../test/testApi.ts';
import { emptyLedger, recordAttempts } from '../../../test/usage.ts';

let api: TestApi;
let ada: string;
beforeAll(async () => {
  api = await startTestApi();
  ada = (await api.issue({ principal_id: 'ada', scopes: ['usage:read'] })).key;
});
afterAll(() => api.close());
beforeEach(() => emptyLedger(api.db));

/** The columns that FOCUS 1.2 requires of every dataset. */
const MANDATORY = [
  'BilledCost',
  'BillingAccountId',
  'BillingAccountName',
  'BillingCurrency',
  'BillingPeriodEnd',
  'BillingPeriodStart',
  'ChargeCategory',
  'ChargeClass',
  'ChargeDescription',
  'ChargePeriodEnd',
  'ChargePeriodStart',
  'ContractedCost',
  'EffectiveCost',
  'InvoiceIssuerName',
  'ListCost',
  'PricingQuantity',
  'PricingUnit',
  'ProviderName',
  'PublisherName',
  'ServiceCategory',
  'ServiceName',
];
const NOT_NULL = MANDATORY.filter((name) => !['BillingAccountName', 'ChargeClass'].includes(name));

/** The fields of one record of a CSV, and what follows it (RFC 4180). */
function records(csv: string): string[][] {
  const all: string[][] = [];
  let fields: string[] = [];
  let field = '';
  let isQuoted = false;
  for (let at = 0; at < csv.length; at++) {
    const character = csv.charAt(at);
    if (isQuoted && character === '"' && csv.charAt(at + 1) === '"') field += csv.charAt(++at);
    else if (character === '"') isQuoted = !isQuoted;
    else if (isQuoted) field += character;
    else if (character === ',' || character === '\r') {
      fields.push(field);
      field = '';
      if (character === '\r') {
        all.push(fields);
        fields = [];
        at++;
      }
    } else field += character;
  }
  return all;
}

async function focus(query: Record<string, string> = {}, key = api.operatorKey) {
  const path = `/api/v1/spend/focus?${new URLSearchParams(query)}`;
  const { status, text, headers } = await api.get(path, { key });
  if (status !== 200) return { status, headers, rows: [], error: JSON.parse(text).error };
  const [head = [], ...lines] = records(text);
  const rows = lines.map((line) => Object.fromEntries(head.map((name, at) => [name, line[at] ?? ''])));
  return { status, headers, head, rows, error: undefined };
}

const nano = (dollars = '') => {
  const [units = '', fraction = ''] = dollars.replace('-', '').split('.');
  const amount = BigInt(units + fraction.padEnd(9, '0'));
  return dollars.startsWith('-') ? -amount : amount;
};
const sum = (rows: readonly Record<string, string>[]) =>
  rows.reduce((total, row) => total + nano(row.BilledCost), 0n);
const day = (text: string) => new Date(`2026-11-${text}Z`);
const RANGE = { from: '2026-11-01T00:00:00Z', to: '2026-11-20T00:00:00Z' };

describe('the FOCUS export', () => {
  it('has every mandatory column, with values where nulls are not allowed', async () => {
    const key = await api.issue({ name: 'notebook' });
    const [connector] = (await api.call('GET', '/connectors')).body.data as { id: string; name: string }[];
    await recordAttempts(api.db, [
      {
        key: key.id,
        principal: 'ada',
        connector: connector?.id ?? '',
        costNano: 1_234_567_891n,
        attribution: { team: 'engines', project: 'apollo' },
        admittedAt: day('19T23:59:59.999'),
      },
      { connector: '', costNano: 10n, admittedAt: day('19T00:00:00') },
    ]);
    const { rows, head, headers } = await focus();
    expect(headers).toMatchObject({
      'content-type': 'text/csv; charset=utf-8; header=present',
      'content-disposition': 'attachment; filename="focus-2026-11-19.csv"',
      'x-svc-complete': 'true',
    });
    expect(head).toEqual(expect.arrayContaining(MANDATORY));
    for (const row of rows) for (const name of NOT_NULL) expect([name, row[name]]).not.toEqual([name, '']);
    expect(rows.find((row) => row.ResourceId === key.id)).toMatchObject({
      BilledCost: '1.234567891',
      BillingAccountId: connector?.id,
      BillingAccountName: connector?.name,
      BillingPeriodStart: '2026-11-01T00:00:00Z',
      BillingPeriodEnd: '2026-12-01T00:00:00Z',
      ChargePeriodStart: '2026-11-19T00:00:00Z',
      ChargePeriodEnd: '2026-11-20T00:00:00Z',
      ResourceName: 'notebook',
      ServiceName: 'mock/echo',
      Tags: expect.stringContaining('"project":"apollo"'),
    });
    expect(rows).toHaveLength(2);
    expect(rows.find((row) => row.BillingAccountId === 'none')?.BilledCost).toBe('0.00000001');
  });

  it('adds up to exactly what spend says, with corrections, whatever the filter', async () => {
    const attempts = Array.from({ length: 60 }, (_, n) => ({
      principal: ['ada', 'bob'][n % 2] as string,
      costNano: BigInt(n * 7_919 + 1),
      attribution: { team: `t${n % 7}`, user: n % 5 === 0 ? '=1+1' : `u${n}` },
      admittedAt: new Date(day('01T00:00:00').getTime() + n * 27_000_000),
    }));
    const [request] = await recordAttempts(api.db, attempts);
    const { status } = await api.call('POST', `/requests/${request}/corrections`, {
      body: { amount_micro_usd: 3, reason: 'the invoice says more' },
    });
    expect(status).toBe(201);
    for (const filter of [{}, { principal_id: 'ada' }, { team: 't3' }, { user: 'u1' }]) {
      const spend = await api.call('GET', `/spend?${new URLSearchParams({ ...RANGE, ...filter })}`);
      const { rows } = await focus({ ...RANGE, ...filter });
      const total = spend.body.total as { cost_nano_usd: string };
      expect([filter, String(sum(rows))]).toEqual([filter, total.cost_nano_usd]);
    }
    // By days, and by days one after the other.
    const { rows } = await focus(RANGE);
    const starts = rows.map((row) => row.ChargePeriodStart ?? '');
    expect(starts).toEqual([...starts].sort());
    let parts = 0n;
    for (let from = Date.parse(RANGE.from); from < Date.parse(RANGE.to); from += 86_400_000) {
      const to = new Date(from + 86_400_000).toISOString();
      parts += sum((await focus({ from: new Date(from).toISOString(), to })).rows);
    }
    expect(parts).toBe(sum(rows));
    for (const row of rows) for (const value of Object.values(row)) expect(value).not.toMatch(/^[=+@]/);
  });

  it('streams many rows', async () => {
    const users = Array.from({ length: 1_700 }, (_, n) => `u${n}`);
    await recordAttempts(
      api.db,
      users.map((user) => ({ attribution: { user }, admittedAt: day('19T12:00:00') })),
    );
    expect((await focus()).rows).toHaveLength(users.length);
  });

  it('has the same rows in Parquet', async () => {
    const key = await api.issue({ name: '=1+1 "ü", 中' });
    await recordAttempts(api.db, [
      { key: key.id, principal: 'ada', costNano: 1_234_567_891n, admittedAt: day('18T23:59:59.999') },
      { costNano: 9_007_199_254_740_993n, attribution: { user: '=1+1' }, admittedAt: day('19T00:00:00') },
      { connector: '', costNano: 10n, admittedAt: day('19T01:00:00') },
    ]);
    const range = { from: '2026-11-18T00:00:00Z', to: '2026-11-20T00:00:00Z' };
    const { rows } = await focus(range);
    expect(rows).toHaveLength(3);
    // In a CSV, an apostrophe keeps a spreadsheet from running what begins a formula.
    const plain = rows.map((row) =>
      Object.fromEntries(Object.entries(row).map(([name, value]) => [name, value.replace(/^'(?==)/, '')])),
    );
    const path = `/api/v1/spend/focus?${new URLSearchParams({ ...range, format: 'parquet' })}`;
    const file = await api.get(path, { key: api.operatorKey });
    expect(file.headers).toMatchObject({
      'content-type': 'application/vnd.apache.parquet',
      'content-disposition': 'attachment; filename="focus-2026-11-18-to-2026-11-19.parquet"',
      'x-svc-complete': 'true',
    });
    expect(await parquetRows(file.bytes)).toEqual(plain);
    const accept = { accept: 'application/vnd.apache.parquet' };
    const accepted = await api.get('/api/v1/spend/focus', { key: ada, headers: accept });
    expect(await parquetRows(accepted.bytes)).toEqual((await focus({}, ada)).rows);
  });

  it('shows a caller only what it may see', async () => {
    await recordAttempts(api.db, [
      { principal: 'ada', admittedAt: day('19T12:00:00') },
      { principal: 'bob', admittedAt: day('19T12:00:00') },
    ]);
    expect((await focus({}, ada)).rows.map((row) => row.Tags)).toEqual([
      expect.stringContaining('"principal":"ada"'),
    ]);
    expect((await focus({ principal_id: 'bob' }, ada)).error.code).toBe('principal_not_allowed');
  });

  it.each([
    [{ from: '2026-11-19T12:00:00Z' }, /from: must be a midnight in UTC/],
    [{ to: '2026-11-20T00:00:00+02:00' }, /to: must be a midnight in UTC/],
    [{ from: '2026-10-01T00:00:00Z' }, /31 days/],
    [{ from: '2026-11-20T00:00:00Z', to: '2026-11-19T00:00:00Z' }, /before/],
    [{ group_by: 'team' }, /group_by/],
    [{ format: 'xlsx' }, /format: must be one of csv, parquet/],
  ])('refuses %j', async (query, message) => {
    const { status, error } = await focus(query as Record<string, string>);
    expect([status, error.message]).toEqual([400, expect.stringMatching(message)]);
  });
});
