import { createHash, createHmac, randomBytes } from 'node:crypto';
import type { TestRun } from '@weighbridge/testing';
import pg from 'pg';
import { Pool } from 'undici';
import { assignCores, type Cores } from '../proxy/cores.ts';
import { checkLedgerSum, watchRecorded } from '../proxy/ledgerSum.ts';
import { PLAIN } from '../proxy/plan.ts';
import { load } from '../proxy/rounds.ts';
import { formatTable } from '../shared/figures.ts';
import { loadLine } from '../shared/machine.ts';
import { residentMiB } from '../shared/residentMemory.ts';
import { issueKeys, type Service, startBenchProgram, startProxy, startService } from '../shared/service.ts';

const MAX_MIB = 250;
/** Final memory relative to that after a fifth of the requests, with all keys known: more is a leak, not a cache. */
const MAX_GROWTH = 1.15;
const PARTS = 5;
const CONNECTIONS = 32;
const LOOKUPS_AT_ONCE = 64;
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
  /** MiB resident: after the start, with all keys known, and after each part of the requests. */
  readonly started: number;
  readonly known: number;
  readonly after: readonly { readonly requests: number; readonly mib: number }[];
  /** The last of `after` relative to the first. */
  readonly growth: number;
  readonly mostMiB: number;
  readonly load: string;
}

/** Measures the memory of a proxy that knows many keys and has served many requests, with everything on. */
export async function measureMemory(run: TestRun, options: MemoryOptions): Promise<MemoryFigures> {
  const { requests, keys, cores = assignCores([]), onProgress } = options;
  const service = await startService(run, 'proxy/fastVendor');
  try {
    onProgress(`adding ${keys} keys`);
    const tokens = await addKeys(service, keys);
    const proxy = await startProxy(run, service, 'proxy', { core: cores.proxy });
    const loadGenerator = await startBenchProgram(run, 'proxy/loadGenerator');
    const recorded = await watchRecorded(service.databaseUrl);
    try {
      const resident = () => residentMiB(proxy.process.pid)?.all ?? Number.NaN;
      const started = resident();
      onProgress('the proxy looks up the keys');
      await lookUpKeys(proxy.url, tokens);
      const known = resident();
      const after: { requests: number; mib: number }[] = [];
      let sent = 0;
      for (let part = 1; part <= PARTS; part++) {
        onProgress(`part ${part} of ${PARTS} of ${requests} requests`);
        while (sent < (requests / PARTS) * part) {
          // Different keys each time.
          const roundTokens = Array.from(
            { length: 200 },
            (_, at) => tokens[(sent + at * 499) % tokens.length] ?? '',
          );
          const order = {
            url: proxy.url,
            path: '/v1/chat/completions',
            headers: {},
            tokens: roundTokens,
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
      onProgress('checking the ledger');
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
      ['the start', started.toFixed(0)],
      ['the keys were known', known.toFixed(0)],
      ...after.map((one) => [`${one.requests.toLocaleString('en-US')} requests`, one.mib.toFixed(0)]),
    ]),
    '',
    `peak ${mostMiB.toFixed(0)} MiB, at most ${MAX_MIB}; growth ${growth.toFixed(2)} from the first to the last, at most ${MAX_GROWTH}`,
    'every response was right, and the ledger has each request once and at its price',
  ].join('\n');
}

/** Whether each target of this scenario is reached. */
export function memoryHolds({ growth, mostMiB }: MemoryFigures): {
  readonly isFlat: boolean;
  readonly fits: boolean;
} {
  return { isFlat: growth <= MAX_GROWTH, fits: mostMiB <= MAX_MIB };
}

/**
 * Adds keys on the same policy as one that the operator API issued, each with its principal. By SQL, since as many API calls
 * would take minutes. Returns their secrets.
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
    if (!pepper?.secret) throw new Error('the database has no pepper');
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

/** A token in the format of service keys. */
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

/** Sends one request with each key, so that the proxy looks it up. */
async function lookUpKeys(url: string, tokens: readonly string[]): Promise<void> {
  const pool = new Pool(url, { connections: LOOKUPS_AT_ONCE });
  try {
    let next = 0;
    const work = async () => {
      for (let token = tokens[next++]; token !== undefined; token = tokens[next++]) {
        const headers = { authorization: `Bearer ${token}` };
        const { statusCode, body } = await pool.request({ method: 'GET', path: '/v1/models', headers });
        await body.dump();
        if (statusCode !== 200) throw new Error(`the list of models answered ${statusCode}`);
      }
    };
    await Promise.all(Array.from({ length: LOOKUPS_AT_ONCE }, work));
  } finally {
    await pool.close();
  }
}
