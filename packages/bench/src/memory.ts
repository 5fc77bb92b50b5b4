import { createHash, createHmac, randomBytes } from 'node:crypto';
import type { TestRun } from '@weighbridge/testing';
import pg from 'pg';
import { Pool } from 'undici';
import { formatTable } from './figures.ts';
import { loadLine } from './machine.ts';
import { type Cores, dealCores } from './proxy/cores.ts';
import { checkLedgerSum, watchRecorded } from './proxy/ledgerSum.ts';
import { PLAIN } from './proxy/plan.ts';
import { load } from './proxy/rounds.ts';
import { residentMiB } from './residentMemory.ts';
import { issueKeys, type Service, startOwn, startProxy, startService } from './service.ts';

const MOST_MIB = 250;
/** Of what it had once the keys were known and a fifth of the requests had come: what more is a leak, not a cache. */
const MOST_GROWTH = 1.15;
const PARTS = 5;
const CONNECTIONS = 32;
const KNOWING_AT_ONCE = 64;
const ROWS_AT_ONCE = 10_000;
const ROUND_MS = 2_000;

export interface MemoryOptions {
  readonly requests: number;
  readonly keys: number;
  readonly cores?: Cores;
  readonly onProgress: (text: string) => void;
}

export interface MemoryFigures {
  readonly requests: number;
  readonly keys: number;
  /** MiB resident: after its start, with the keys known, and after each part of the requests. */
  readonly started: number;
  readonly known: number;
  readonly after: readonly { readonly requests: number; readonly mib: number }[];
  /** The last by the first of `after`. */
  readonly growth: number;
  readonly mostMiB: number;
  readonly load: string;
}

/** What a proxy keeps in memory that knows many keys and has served many requests, with everything on. */
export async function measureMemory(run: TestRun, options: MemoryOptions): Promise<MemoryFigures> {
  const { requests, keys, cores = dealCores([]), onProgress } = options;
  const service = await startService(run, 'proxy/fastVendor');
  try {
    onProgress(`${keys} keys`);
    const tokens = await addKeys(service, keys);
    const proxy = await startProxy(run, service, 'proxy', { core: cores.proxy });
    const loadGenerator = await startOwn(run, 'proxy/loadGenerator');
    const recorded = await watchRecorded(service.databaseUrl);
    try {
      const resident = () => residentMiB(proxy.process.pid)?.all ?? Number.NaN;
      const started = resident();
      onProgress('the proxy gets to know them');
      await knowAll(proxy.url, tokens);
      const known = resident();
      const after: { requests: number; mib: number }[] = [];
      let sent = 0;
      for (let part = 1; part <= PARTS; part++) {
        onProgress(`part ${part} of ${PARTS} of ${requests} requests`);
        while (sent < (requests / PARTS) * part) {
          // Other keys each time.
          const some = Array.from(
            { length: 200 },
            (_, at) => tokens[(sent + at * 499) % tokens.length] ?? '',
          );
          const order = {
            url: proxy.url,
            path: '/v1/chat/completions',
            headers: {},
            tokens: some,
            workload: PLAIN,
            expects: 'same bytes',
            connections: Math.min(CONNECTIONS, requests),
            ms: Math.min(ROUND_MS, requests / PARTS),
          } as const;
          sent += (await load(loadGenerator.url, order)).requests;
          await recorded.until(sent);
        }
        after.push({ requests: sent, mib: resident() });
      }
      onProgress('comparing the ledger');
      await checkLedgerSum(service.databaseUrl, sent);
      const mib = after.map((one) => one.mib);
      return {
        requests: sent,
        keys,
        started,
        known,
        after,
        growth: (mib.at(-1) ?? Number.NaN) / (mib[0] ?? Number.NaN),
        mostMiB: Math.max(known, ...mib),
        load: loadLine(),
      };
    } finally {
      await recorded.close();
      await loadGenerator.process.stop();
      await proxy.process.stop();
    }
  } finally {
    await service.close();
  }
}

export function describeMemory(figures: MemoryFigures): string {
  const { requests, keys, started, known, after, growth, mostMiB, load: loadNow } = figures;
  return [
    `${requests.toLocaleString('en-US')} requests, ${keys.toLocaleString('en-US')} keys known; ${loadNow}`,
    '',
    formatTable([
      ['after', 'MiB resident'],
      ['its start', started.toFixed(0)],
      ['the keys were known', known.toFixed(0)],
      ...after.map((one) => [`${one.requests.toLocaleString('en-US')} requests`, one.mib.toFixed(0)]),
    ]),
    '',
    `most ${mostMiB.toFixed(0)} MiB, at most ${MOST_MIB}; the last by the first ${growth.toFixed(2)}, flat is at most ${MOST_GROWTH}`,
    'every response was right, and the ledger has each request once and at its price',
  ].join('\n');
}

/** Whether it stays within its bars. */
export function memoryHolds({ growth, mostMiB }: MemoryFigures): {
  readonly isFlat: boolean;
  readonly fits: boolean;
} {
  return { isFlat: growth <= MOST_GROWTH, fits: mostMiB <= MOST_MIB };
}

/**
 * Keys like one that the operator API issued, on its policy and with a principal each, by SQL: so many calls would take
 * minutes. Returns their secrets.
 */
async function addKeys(service: Service, count: number): Promise<string[]> {
  const [first = ''] = await issueKeys(service, ['first']);
  const client = new pg.Client({ connectionString: service.databaseUrl });
  await client.connect();
  try {
    const { rows } = await client.query<{ version: number; secret: Buffer }>(
      'SELECT version, secret FROM peppers ORDER BY version DESC LIMIT 1',
    );
    const [pepper] = rows;
    if (!pepper?.secret) throw new Error('the database has no pepper of its own');
    const tokens = [first];
    while (tokens.length < count) {
      const from = tokens.length;
      const more = Array.from({ length: Math.min(ROWS_AT_ONCE, count - from) }, newToken);
      const hashes = more.map((token) =>
        createHmac('sha256', pepper.secret).update(createHash('sha256').update(token).digest()).digest(),
      );
      await client.query(COPY_KEYS, [from, pepper.version, hashes]);
      tokens.push(...more);
    }
    return tokens;
  } finally {
    await client.end();
  }
}

/** Of the form that the product's own have. */
function newToken(): string {
  return `sk-svc-${randomBytes(32).toString('base64url')}`;
}

const COPY_KEYS = `
  WITH added AS (
    SELECT 'bench-' || ($1::int + at) AS name, 'key_' || md5(($1::int + at)::text) AS id, hash
    FROM unnest($3::bytea[]) WITH ORDINALITY AS given (hash, at)
  ), principal AS (
    INSERT INTO principals (id, created_at) SELECT name, now() FROM added
  ), key AS (
    INSERT INTO keys (id, key_hint, kind, name, principal_id, policy_id, counter_key_id, scopes, created_at, updated_at)
    SELECT added.id, key_hint, kind, added.name, added.name, policy_id, added.id, scopes, created_at, updated_at
    FROM added, keys WHERE keys.name = 'first'
  )
  INSERT INTO key_secrets (secret_hash, pepper_version, key_id, created_at)
  SELECT hash, $2, id, now() FROM added`;

/** Each has been looked up once. */
async function knowAll(url: string, tokens: readonly string[]): Promise<void> {
  const pool = new Pool(url, { connections: KNOWING_AT_ONCE });
  try {
    let next = 0;
    const work = async () => {
      for (let token = tokens[next++]; token !== undefined; token = tokens[next++]) {
        const headers = { authorization: `Bearer ${token}` };
        const { statusCode, body } = await pool.request({ method: 'GET', path: '/v1/models', headers });
        await body.dump();
        if (statusCode !== 200) throw new Error(`the list of models answers ${statusCode}`);
      }
    };
    await Promise.all(Array.from({ length: KNOWING_AT_ONCE }, work));
  } finally {
    await pool.close();
  }
}
