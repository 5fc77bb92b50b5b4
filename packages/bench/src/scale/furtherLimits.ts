import { createDb } from '@weighbridge/database';
import { eventually } from '@weighbridge/testing';
import { sql } from 'kysely';
import { cpuSeconds } from '../shared/cpu.ts';
import { figure } from '../shared/figures.ts';
import { residentMiB } from '../shared/residentMemory.ts';
import { AMPLE_BUDGET, createPolicy, issueKey, type RunningProxy, type Service } from '../shared/service.ts';
import type { Lane } from './lane.ts';
import { controlCalls, type ScaleLoad } from './scaleLoad.ts';
import { withProxies } from './withProxies.ts';

const CUSTOMERS = 2_000;
const TURNS = 5;
const REQUESTS_EACH_TURN = 4_000;
const KNOWN_CUSTOMERS = 50;
const AMPLE = 1_000_000_000_000;

/** Each counts every request. */
const FIVE_LIMITS = [
  { name: 'each customer', counter_scope: 'user', limit_micro_usd: AMPLE },
  { name: 'each customer, by the day', counter_scope: 'user', window: 'day', limit_micro_usd: AMPLE },
  { name: 'each key', counter_scope: 'key', limit_micro_usd: AMPLE },
  { name: 'models', models: ['mock/*'], counter_scope: 'policy', limit_micro_usd: AMPLE },
  { name: 'everyone', counter_scope: 'policy', window: 'week', limit_micro_usd: AMPLE },
];
const THREE_LIMITS = FIVE_LIMITS.filter(({ counter_scope }) => counter_scope !== 'policy');

/** Limits for each customer: what they add to a request, and what each new customer leaves behind. */
export const furtherLimits: Lane = {
  name: 'further limits',
  size: `${CUSTOMERS.toLocaleString('en-US')} new customers, 2 proxies`,
  measure: (run, factor, onProgress) =>
    withProxies(run, 2, async (service, load, proxies) => {
      const keyUnder = async (name: string, limits: readonly object[]) => {
        const policyId = await createPolicy(service, { name, ...AMPLE_BUDGET, limits });
        return await issueKey(service, name, policyId);
      };
      const plain = await keyUnder('plain', []);
      const five = await keyUnder('five', FIVE_LIMITS);
      const three = await keyUnder('three', THREE_LIMITS);
      const known = (at: number) => `known-${at % KNOWN_CUSTOMERS}`;
      onProgress('requests of known customers, with and without limits');
      const ratios = await cpuInTurns(load, proxies, { plain, limited: five, known });
      const recording = await recordingInTurns(service, load, { plain, limited: three, known });

      onProgress('new customers');
      const before = await state(service, proxies);
      const { failed } = await load.many(five, CUSTOMERS * factor, (at) => `new-${at}`);
      await untilRecorded(service);
      const after = await state(service, proxies);
      const each = (what: 'calls' | 'rows' | 'bytes') => (after[what] - before[what]) / (CUSTOMERS * factor);
      return {
        'CPU of a proxy with five matching limits, of none': ratios,
        'CPU of the ledger with three matching limits, of none': recording,
        'lease calls of a new customer': each('calls'),
        'rows of a new customer': each('rows'),
        'KiB of a new customer at the proxies': each('bytes') / 1_024,
        'failed requests': failed,
      };
    }),
};

interface Compared {
  readonly plain: string;
  readonly limited: string;
  readonly known: (at: number) => string;
}

/** The median ratio of the turns. Before they count, both have their leases. */
async function cpuInTurns(
  load: ScaleLoad,
  proxies: readonly RunningProxy[],
  keys: Compared,
): Promise<number> {
  const used = () => proxies.reduce((sum, { process }) => sum + (cpuSeconds(process.pid) ?? Number.NaN), 0);
  return await inTurns(keys, async (key) => {
    const began = used();
    await load.many(key, REQUESTS_EACH_TURN, keys.known);
    return used() - began;
  });
}

async function recordingInTurns(service: Service, load: ScaleLoad, keys: Compared): Promise<number> {
  const used = () => service.recorders.reduce((sum, pid) => sum + (cpuSeconds(pid) ?? Number.NaN), 0);
  return await inTurns(keys, async (key) => {
    const began = used();
    await load.many(key, REQUESTS_EACH_TURN, keys.known);
    await untilRecorded(service);
    return used() - began;
  });
}

async function inTurns(
  { plain, limited }: Compared,
  measure: (key: string) => Promise<number>,
): Promise<number> {
  await measure(plain);
  await measure(limited);
  const ratios: number[] = [];
  for (let turn = 0; turn < TURNS; turn++) {
    const [of, beside] = turn % 2 === 0 ? [plain, limited] : [limited, plain];
    const [first, second] = [await measure(of), await measure(beside)];
    ratios.push(turn % 2 === 0 ? second / first : first / second);
  }
  return figure(ratios).median;
}

async function state(service: Service, proxies: readonly RunningProxy[]) {
  const rows = await withDatabase(service, async (db) => {
    const found = await sql<{ rows: number }>`
      SELECT ((SELECT count(*) FROM spend_buckets) + (SELECT count(*) FROM budget_leases))::float8 AS rows`.execute(
      db,
    );
    return found.rows[0]?.rows ?? Number.NaN;
  });
  const MiB = proxies.reduce((sum, { process }) => sum + (residentMiB(process.pid)?.own ?? Number.NaN), 0);
  return { calls: await controlCalls(service.controlPlane, 'lease'), rows, bytes: MiB * 1_048_576 };
}

/** Waits until the ledger gets no more events. */
async function untilRecorded(service: Service): Promise<void> {
  await withDatabase(service, async (db) => {
    let last = -1;
    await eventually(
      async () => {
        const { rows } = await sql<{
          count: number;
        }>`SELECT count(*)::float8 AS count FROM usage_events`.execute(db);
        const before = last;
        last = rows[0]?.count ?? 0;
        if (last !== before) throw new Error('events still come');
      },
      { intervalMs: 1_000, timeoutMs: 120_000 },
    );
  });
}

async function withDatabase<Result>(
  { databaseUrl }: Service,
  use: (db: ReturnType<typeof createDb>) => Promise<Result>,
): Promise<Result> {
  const db = createDb(databaseUrl, { applicationName: 'bench', onIdleError: () => {} });
  try {
    return await use(db);
  } finally {
    await db.destroy();
  }
}
