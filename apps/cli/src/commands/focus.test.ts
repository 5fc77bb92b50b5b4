import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { createProgram, runProgram } from './program.ts';

/** A service with a dataset for each day: its header, and a row that names the day. */
let server: Server;
let url: string;
let asked: URLSearchParams[];
/** Days of which usage is missing. */
let incomplete: Set<string>;
let failing: Set<string>;

const HEADER = 'BilledCost,ChargePeriodStart\r\n';
const dataset = (day: string) => `${HEADER}1.5,${day}\r\n`;

beforeAll(async () => {
  server = createServer((request, response) => {
    const { searchParams } = new URL(request.url ?? '', 'http://service');
    asked.push(searchParams);
    const day = searchParams.get('from')?.slice(0, 10) ?? '';
    if (failing.has(day)) {
      const error = { message: 'Away.', type: 'x', code: 'unavailable', param: null, request_id: 'req_1' };
      response.writeHead(503, { 'content-type': 'application/json' }).end(JSON.stringify({ error }));
      return;
    }
    const isComplete = String(!incomplete.has(day));
    response.writeHead(200, { 'content-type': 'text/csv', 'x-svc-complete': isComplete }).end(dataset(day));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(() => server.close());
beforeEach(() => {
  asked = [];
  incomplete = new Set();
  failing = new Set();
});

async function focus(args: readonly string[], files: Record<string, string> = {}) {
  const out: string[] = [];
  const err: string[] = [];
  const cli = {
    env: { WEIGHBRIDGE_URL: url, WEIGHBRIDGE_KEY: 'sk-svc-secret' },
    version: '1.2.3',
    out: (text: string) => out.push(text),
    err: (text: string) => err.push(text),
    readFile: async (path: string) => files[path] ?? '',
    writeFile: async (path: string, content: string | Uint8Array, options?: { isWhole?: boolean }) => {
      // What a crash leaves must not look like a day that is done.
      expect(options?.isWhole).toBe(true);
      files[path] = Buffer.from(content).toString();
    },
    listFolder: async (folder: string) =>
      folder === 'focus' ? Object.keys(files).map((path) => path.slice('focus/'.length)) : undefined,
    now: () => new Date('2026-11-20T10:00:00Z'),
  };
  const code = await runProgram(createProgram(cli), ['spend', '--focus', ...args], cli);
  return { code, out: out.join('\n'), err: err.join('\n'), files };
}

it('prints yesterday, or the days of a range under one header', async () => {
  expect(await focus([])).toMatchObject({ code: 0, out: dataset('2026-11-19').trimEnd(), err: '' });
  const range = await focus(['--from', '2026-11-01', '--to', '2026-11-04']);
  expect(range.out.split(/\r?\n/)).toEqual([
    HEADER.trimEnd(),
    ...['01', '02', '03'].map((day) => `1.5,2026-11-${day}`),
  ]);
  expect(asked.at(-1)?.get('to')).toBe('2026-11-04T00:00:00.000Z');
});

it('writes a file for each day with --output, and goes on where it stopped', async () => {
  const range = ['--from', '2026-11-01', '--to', '2026-11-04', '-o', 'focus', '--team', 'red'];
  failing = new Set(['2026-11-03']);
  const first = await focus(range);
  expect(first.code).toBe(1);
  expect(Object.keys(first.files)).toEqual(['focus/focus-2026-11-01.csv', 'focus/focus-2026-11-02.csv']);
  failing = new Set();
  asked = [];
  const again = await focus(range, first.files);
  expect(again).toMatchObject({ code: 0, out: '', err: 'Wrote focus/focus-2026-11-03.csv' });
  expect(asked.map((query) => [query.get('from')?.slice(0, 10), query.get('team')])).toEqual([
    ['2026-11-03', 'red'],
  ]);
  expect(again.files['focus/focus-2026-11-03.csv']).toBe(dataset('2026-11-03'));
});

it('writes Parquet beside CSV, each with its own days', async () => {
  const range = ['--from', '2026-11-01', '--to', '2026-11-03', '-o', 'focus'];
  const csv = await focus(['--from', '2026-11-01', '--to', '2026-11-02', '-o', 'focus']);
  const { files } = await focus([...range, '--format', 'parquet'], csv.files);
  expect(Object.keys(files)).toEqual([
    'focus/focus-2026-11-01.csv',
    'focus/focus-2026-11-01.parquet',
    'focus/focus-2026-11-02.parquet',
  ]);
  expect(asked.map((query) => query.get('format'))).toEqual([null, 'parquet', 'parquet']);
});

it('writes no file of a day that is not complete, and says so of one that it prints', async () => {
  incomplete = new Set(['2026-11-19']);
  const written = await focus(['-o', 'focus']);
  expect([written.code, written.files]).toEqual([1, {}]);
  expect(written.err).toContain('focus-2026-11-19.csv was not written');
  expect(await focus([])).toMatchObject({
    code: 0,
    err: 'focus-2026-11-19.csv: usage of this day may still be missing.',
  });
});

it.each([
  [['--from', '2026-11-01T01:00:00Z'], 'must be a day'],
  [['--from', '2026-11-02', '--to', '2026-11-01'], 'must be before --to'],
  [['--from', '2025-01-01', '--to', '2026-11-01'], 'by at most 400 days'],
  [['--by', 'team'], 'its columns are fixed'],
  [['--json'], 'its columns are fixed'],
  [['--format', 'parquet'], 'name a folder'],
  [['--format', 'xlsx'], 'Allowed choices are csv, parquet'],
  [['-o', 'elsewhere'], 'There is no folder elsewhere'],
])('refuses %j before anything is asked', async (args, says) => {
  const { code, err } = await focus(args);
  expect(code).toBe(2);
  expect(err).toContain(says);
  expect(asked).toEqual([]);
});
