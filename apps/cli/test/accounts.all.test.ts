import { eventually } from '@weighbridge/testing';
import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Caller, type Cluster, startCluster } from './faults/cluster.ts';
import { manage } from './mainJob.ts';

const RATE = 60;
const MINUTE_MS = 60_000;

let cluster: Cluster;
beforeAll(async () => {
  cluster = await startCluster({ proxies: 3 });
  await eventually(async () => {
    const { body } = await manage(cluster, 'GET', '/api/v1/proxies');
    expect((body.data as unknown[]).length).toBe(3);
  });
});
afterAll(() => cluster?.close());

async function operate(method: string, path: string, body?: object) {
  const response = await manage(cluster, method, `/api/v1${path}`, body && { body });
  expect(response.status, JSON.stringify(response.body)).toBeLessThan(300);
  return response.body;
}

async function teamUnder(name: string, policy: object): Promise<Caller> {
  const { id } = await operate('POST', '/policies', { name, ...policy });
  return await cluster.caller(name, { policy_id: id });
}

const ofCaller = ({ key }: Caller, proxy: number) =>
  new OpenAI({
    baseURL: `${cluster.proxies[proxy]?.url}/v1`,
    apiKey: key,
    maxRetries: 0,
    timeout: 10 * MINUTE_MS,
  });

/** The most of these times in any minute. */
function mostInAMinute(times: readonly number[]): number {
  const sorted = times.toSorted((a, b) => a - b);
  return Math.max(
    ...sorted.map((at, index) => sorted.filter((other, i) => i >= index && other < at + MINUTE_MS).length),
  );
}

describe('an account of 60 requests a minute, shared by two teams over three proxies', () => {
  it('never gets a 61st in any minute; the team with priority goes first, and the other one waits', async () => {
    const { data } = await operate('GET', '/connectors');
    const [connector] = data as { id: string }[];
    await operate('PATCH', `/connectors/${connector?.id}`, { requests_per_minute: RATE });
    const policy = { queue_ms: 3 * MINUTE_MS };
    const batch = await teamUnder('batch', policy);
    const chat = await teamUnder('chat', { ...policy, priority: 5 });
    const impatient = await teamUnder('impatient', {});
    const done: { readonly team: string; readonly atMs: number }[] = [];
    const ask = async (team: Caller, proxy: number) => {
      await ofCaller(team, proxy).chat.completions.create({
        model: 'mock/echo',
        messages: [{ role: 'user', content: team.name }],
      });
      done.push({ team: team.name, atMs: Date.now() });
    };
    const sentBefore = cluster.vendor.requests.length;
    // Two minutes of work of the one, then half a minute of the other, at whichever proxy.
    const working = Array.from({ length: 2 * RATE }, (_, at) => ask(batch, at % 3));
    await eventually(() => expect(done.length).toBe(RATE));
    await expect(ask(impatient, 0)).rejects.toMatchObject({ status: 429, code: 'account_limit_exceeded' });
    const chatting = Array.from({ length: RATE / 2 }, (_, at) => ask(chat, at % 3));
    await Promise.all([...working, ...chatting]);

    const sent = cluster.vendor.requests.slice(sentBefore);
    expect(sent.length).toBe(2.5 * RATE);
    expect(mostInAMinute(done.map(({ atMs }) => atMs))).toBeLessThanOrEqual(RATE);
    const teams = done.map(({ team }) => team);
    expect(teams.slice(0, RATE)).not.toContain('chat');
    // All that is granted next, at one instant, but for what is left of it.
    expect(teams.slice(RATE, 2 * RATE).filter((team) => team === 'chat').length).toBe(RATE / 2);
    await cluster.settled();
  });

  it('gets next to nothing beyond what the vendor grants, once that is less than it said', async () => {
    const { data } = await operate('GET', '/connectors');
    const [connector] = data as { id: string }[];
    await operate('PATCH', `/connectors/${connector?.id}`, { requests_per_minute: 10_000 });
    const team = await teamUnder('surprised', {});
    cluster.vendor.limit(20);
    const sentBefore = cluster.vendor.requests.length;
    const answers = { granted: 0, byVendor: 0, here: 0 };
    const worker = async (proxy: number) => {
      while (answers.granted + answers.byVendor + answers.here < 300) {
        const refusal = await ofCaller(team, proxy)
          .chat.completions.create({ model: 'mock/echo', messages: [{ role: 'user', content: 'x' }] })
          .then(
            () => undefined,
            ({ code }) => String(code),
          );
        if (refusal === undefined) answers.granted++;
        else if (refusal === 'account_limit_exceeded') answers.here++;
        else answers.byVendor++;
      }
    };
    await Promise.all(Array.from({ length: 6 }, (_, at) => worker(at % 3)));
    cluster.vendor.limit(undefined);
    expect(answers.granted).toBe(20);
    expect(answers.here).toBeGreaterThan(250);
    // Those that were on their way when the vendor said so, each with its retries.
    expect(cluster.vendor.requests.length - sentBefore - answers.granted).toBeLessThanOrEqual(6 * 3);
  });
});
