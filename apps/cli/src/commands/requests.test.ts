import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { createProgram, runProgram } from './program.ts';

const attempt = {
  event_id: 'evt_2',
  model: 'mock/echo',
  connector_id: 'con_1',
  connector_name: 'env-mock',
  outcome: 'success',
  http_status: 200,
  cache_hit: false,
  input_tokens: 5,
  cache_read_tokens: 0,
  cache_write_tokens: 1,
  cache_write_1h_tokens: 2,
  output_tokens: 7,
  cost_nano_usd: '5250',
  estimated: false,
  duration_ms: 12,
  price_source: 'catalog',
  price_version: 3,
  unpriced: [],
  dropped: [],
  skipped: [],
};
const failed = { event_id: 'evt_1', outcome: 'upstream_unreachable', http_status: 0, cost_nano_usd: '0' };
const usd = (nanos: number) => ({ currency_code: 'USD', units: 0, nanos });
const DETAIL = {
  request_id: 'req_1',
  cost_micro_usd: 4,
  refusal: null,
  feedback: null,
  policies: [{ policy_id: 'pol_1', name: 'default', window_start: '2026-11-01T00:00:00.000Z' }],
  attribution: { user: 'ada', labels: { app: 'x' } },
  attempts: [{ ...attempt, ...failed }, attempt],
  corrections: [
    {
      event_id: 'evt_3',
      corrects: 'evt_2',
      amount_micro_usd: -1,
      amount_nano_usd: '-1250',
      reason: 'not on the invoice',
      recorded_at: '2026-11-20T10:00:00.500Z',
    },
  ],
  costs: [
    { event_id: 'evt_1', by_class: null },
    {
      event_id: 'evt_2',
      by_class: [
        { class: 'input', quantity: 5, price: usd(350_000_000), cost_nano_usd: '1750' },
        { class: 'tool:web_search', quantity: 1, price: usd(3_500), cost_nano_usd: '3500' },
      ],
    },
  ],
};

let server: Server;
let url: string;
let asked: string[];
beforeAll(async () => {
  server = createServer((request, response) => {
    asked.push(request.url ?? '');
    const isList = request.url?.startsWith('/api/v1/requests?');
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(JSON.stringify(isList ? { data: [], next_page_token: '' } : DETAIL));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(() => server.close());
beforeEach(() => {
  asked = [];
});

async function requests(...args: string[]): Promise<string> {
  const out: string[] = [];
  const cli = {
    env: { WEIGHBRIDGE_URL: url, WEIGHBRIDGE_KEY: 'sk-svc-operator' },
    version: '1.2.3',
    out: (text: string) => out.push(text),
    err: () => {},
    readFile: async () => '',
    writeFile: async () => {},
    now: () => new Date('2026-11-20T10:00:00Z'),
  };
  expect(await runProgram(createProgram(cli), ['requests', ...args], cli)).toBe(0);
  return out.join('\n');
}

it('shows the attempts, costs and corrections of a request as rows', async () => {
  const text = await requests('show', 'req_1');
  expect(text).not.toMatch(/[{}]/);
  const [fields, attempts, costs, corrections] = text.split('\n\n').map((part) => part.split('\n'));
  expect(fields).toContain('policies        default (pol_1)');
  expect(fields).toContain('attribution     user=ada, label app=x');
  const words = (line = '') => line.split(/ {2,}/);
  expect(attempts?.[0]).toBe('Attempts');
  expect(attempts?.slice(1).map((line) => words(line).slice(0, 10))).toEqual([
    ['#', 'MODEL', 'CONNECTOR', 'OUTCOME', 'STATUS', 'INPUT', 'CACHE READ', 'CACHE WRITE', 'OUTPUT', 'COST'],
    ['1', 'mock/echo', 'env-mock', 'upstream_unreachable', '-', '5', '0', '3', '7', '$0.00'],
    ['2', 'mock/echo', 'env-mock', 'success', '200', '5', '0', '3', '7', '$0.00000525'],
  ]);
  expect(costs?.slice(1).map(words)).toEqual([
    ['#', 'CLASS', 'QUANTITY', 'PRICE', 'COST'],
    ['2', 'input', '5', '$0.35 for 1M', '$0.00000175'],
    ['2', 'tool:web_search', '1', '$0.0000035 for one', '$0.0000035'],
  ]);
  expect(corrections?.slice(1).map(words)).toEqual([
    ['#', 'AMOUNT', 'TIME', 'REASON'],
    ['2', '-$0.00000125', '2026-11-20T10:00:00Z', 'not on the invoice'],
  ]);
});

it('shows with --json what the API responds', async () => {
  expect(JSON.parse(await requests('show', 'req_1', '--json'))).toEqual(DETAIL);
});

it('lists with the filters of the API', async () => {
  await requests('list', '--estimated', '--model', 'mock/echo');
  await requests('list', '--price-incomplete');
  const queries = asked.map((path) =>
    [...new URL(path, url).searchParams].filter(([name]) => !name.startsWith('page_')),
  );
  expect(queries).toEqual([
    [
      ['model', 'mock/echo'],
      ['estimated', 'true'],
    ],
    [['price_incomplete', 'true']],
  ]);
});
