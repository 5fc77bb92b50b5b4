import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type KeyValueBucket, openJetStreamBucket } from '@weighbridge/bus';
import { Route, Strategy } from '@weighbridge/contracts';
import { seededRandom } from '@weighbridge/domain';
import { type MockVendor, startMockVendor } from '@weighbridge/mock-vendor';
import { eventually, startTcpRelay, type TcpRelay, useNats } from '@weighbridge/testing';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { post } from './post.ts';
import { ALICE, BOB, PIN_BUCKET, type TestProxy, type TestProxyOptions } from './proxy.ts';
import { startProxyForTest } from './useProxy.ts';

const SEED = Number(process.env.PINS_SEED ?? 20_261_120);
const SESSION_COUNT = Number(process.env.PINS_SESSIONS ?? 300);
const SLOW = { timeoutMs: 60_000 };
const MODELS = ['mock/echo', 'mock/gpt/with/slashes'];
const IDS = ['con_a', 'con_b', 'con_c'];

/** A vendor that echoes its credential, which identifies the connector of a request. */
let vendor: { url: string; server: Server };
const nats = useNats();
beforeAll(async () => {
  const server = createServer(async (request, response) => {
    for await (const _ of request);
    const content = request.headers.authorization?.replace('Bearer ', '');
    const message = { role: 'assistant', content };
    response.writeHead(200, { 'content-type': 'application/json' }).end(
      JSON.stringify({
        id: 'x',
        object: 'chat.completion',
        choices: [{ index: 0, message, finish_reason: 'stop' }],
        usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
      }),
    );
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  vendor = { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`, server };
});
afterAll(async () => {
  vendor.server.close();
  vendor.server.closeAllConnections();
});

const connectorsOf = (ids: readonly string[], random: () => number = () => 0) =>
  ids.map((id) => ({
    id,
    credential: id,
    priority: Math.floor(random() * 2),
    weight: 1 + Math.floor(random() * 9),
  }));

async function openBucket(
  url: string,
  name: string,
  onError: (error: unknown, what: string) => void,
): Promise<KeyValueBucket> {
  const bucket = await openJetStreamBucket(
    { url, clientName: 'test', setBy: 'nothing', timeoutMs: 20_000, onError },
    { ...PIN_BUCKET, name },
  );
  onTestFinished(() => bucket.close());
  return bucket;
}

async function start(options: Partial<TestProxyOptions> = {}): Promise<TestProxy> {
  return await startProxyForTest({ vendorUrl: vendor.url, connectors: connectorsOf(IDS), ...options });
}

/** Proxies that share the pins in NATS, each with its own connection. */
async function startFour(name: string) {
  const lines: TcpRelay[] = [];
  const proxies: TestProxy[] = [];
  const told: string[] = [];
  for (let at = 0; at < 4; at++) {
    const line = await startTcpRelay(nats.url);
    onTestFinished(() => line.close());
    lines.push(line);
    const bucket = await openBucket(line.url, name, (_error, what) => void told.push(what));
    proxies.push(await start({ pinBucket: bucket }));
  }
  return { proxies, lines, told };
}

interface Asked {
  readonly session?: string;
  readonly token?: string;
  readonly model?: string;
  readonly body?: object;
  readonly path?: string;
}

/** The model and the connector that served a request. */
async function placeOf(
  proxy: TestProxy,
  { session, token = ALICE, model, body, path = '/v1/chat/completions' }: Asked,
) {
  const headers = {
    authorization: `Bearer ${token}`,
    ...(session !== undefined && { 'x-svc-session-id': session }),
  };
  const asked = { model: model ?? 'mock/echo', messages: [], ...body };
  const answer = await post(proxy, path, asked, headers);
  const { choices } = (await answer.json()) as { choices: [{ message: { content: string } }] };
  expect(answer.status).toBe(200);
  const connector = choices[0].message.content;
  return { place: `${answer.headers.get('x-svc-model')} at ${connector}`, connector };
}

/** The connector that served a request. */
const ask = async (proxy: TestProxy, asked: Asked) => (await placeOf(proxy, asked)).connector;

/** Runs a function for each item, several at a time. */
async function forEach<T>(
  items: readonly T[],
  width: number,
  act: (item: T) => Promise<void>,
): Promise<void> {
  const left = [...items];
  const worker = async () => {
    for (let item = left.pop(); item !== undefined; item = left.pop()) await act(item);
  };
  await Promise.all(Array.from({ length: width }, worker));
}

/** An edited profile: another order, other weights, and not always all models. */
function profileOf(random: () => number) {
  const models = MODELS.toSorted(() => random() - 0.5).slice(0, 1 + Math.floor(random() * MODELS.length));
  return {
    id: 'prf_1',
    name: 'talk',
    strategy: random() < 0.5 ? Strategy.ORDERED : Strategy.WEIGHTED,
    targets: models.map((model) => ({ model, weight: 1 + Math.floor(random() * 9) })),
  };
}

it(`${SESSION_COUNT} sessions over 4 proxies stay on their targets, and leave a removed one together (seed ${SEED})`, async () => {
  const random = seededRandom(SEED);
  const { proxies } = await startFour('THOUSAND');
  const sessions = Array.from({ length: SESSION_COUNT }, (_, at) => `session-${at}`);
  const places = new Map<string, string>();
  let offered = IDS;
  // The profile and the connectors keep changing, and each proxy knows another version.
  let asked = 0;
  const edit = () => {
    if (asked++ % 8 > 0) return;
    for (const proxy of proxies) {
      proxy.publish({ connectors: connectorsOf(offered, random), profiles: [profileOf(random)] });
    }
  };
  const askOne = async (proxy: TestProxy, session: string) =>
    (await placeOf(proxy, { session, model: 'router/talk' })).place;
  const askAny = (session: string) => {
    edit();
    return askOne(proxies[Math.floor(random() * proxies.length)] as TestProxy, session);
  };
  const askAll = (session: string) => {
    edit();
    return Promise.all(proxies.map((proxy) => askOne(proxy, session)));
  };

  await forEach(sessions, 8, async (session) => {
    const [place = '', ...others] = await askAll(session);
    expect(others).toEqual([place, place, place]);
    places.set(session, place);
  });
  expect(new Set(places.values()).size).toBe(MODELS.length * IDS.length);
  await forEach(sessions, 16, async (session) => {
    expect(await askAny(session)).toBe(places.get(session));
  });

  const isAtB = (session: string) => places.get(session)?.endsWith('at con_b') === true;
  const left = sessions.filter(isAtB).slice(0, SESSION_COUNT / 10);
  const stayed = sessions.filter((session) => !isAtB(session)).slice(0, SESSION_COUNT / 10);
  offered = IDS.filter((id) => id !== 'con_b');
  asked = 0;
  await forEach([...left, ...stayed], 8, async (session) => {
    const before = places.get(session);
    const [place = '', ...others] = await askAll(session);
    expect(others).toEqual([place, place, place]);
    expect(place !== before).toBe(left.includes(session));
    places.set(session, place);
  });
  // It is back, and the sessions that left do not return.
  offered = IDS;
  asked = 0;
  await forEach(left, 16, async (session) => {
    expect(await askAny(session)).toBe(places.get(session));
  });

  const results = proxies.flatMap(({ pinResults }) => pinResults);
  expect(results.filter((result) => result === 'new')).toHaveLength(SESSION_COUNT);
  expect(results.filter((result) => result === 'moved')).toHaveLength(left.length);
  expect(proxies.flatMap(({ pinStoreErrors }) => pinStoreErrors)).toEqual([]);
});

describe('while NATS is away', () => {
  it('sessions get the same target on all proxies, which is counted; they stay there afterwards', async () => {
    const { proxies, lines, told } = await startFour('AWAY');
    const known = 'known before';
    const before = await Promise.all(proxies.map((proxy) => ask(proxy, { session: known })));
    for (const line of lines) line.cut();
    await eventually(() => expect(told).toHaveLength(4), SLOW);
    const sessions = Array.from({ length: 50 }, (_, at) => `session-${at}`);
    const places = new Map<string, string>();
    for (const session of sessions) {
      const errors = () => proxies.map(({ pinStoreErrors }) => pinStoreErrors.length);
      const counted = errors();
      const [place = '', ...others] = await Promise.all(proxies.map((proxy) => ask(proxy, { session })));
      expect(others).toEqual([place, place, place]);
      expect(errors()).toEqual(counted.map((count) => count + 1));
      places.set(session, place);
    }
    expect(new Set(places.values())).toEqual(new Set(IDS));
    expect(await Promise.all(proxies.map((proxy) => ask(proxy, { session: known })))).toEqual(before);

    for (const line of lines) line.resume();
    for (const proxy of proxies) {
      await eventually(async () => {
        await ask(proxy, { session: `probe-${Math.random()}` });
        expect(proxy.pinResults.at(-1)).toBe('new');
      }, SLOW);
      // A new decision would be different.
      proxy.publish({
        connectors: connectorsOf(IDS).map((connector, priority) => ({ ...connector, priority })),
      });
    }
    for (const session of sessions) {
      for (const proxy of proxies) expect(await ask(proxy, { session })).toBe(places.get(session));
    }
  });
});

describe('a session', () => {
  const preferring = (id: string) =>
    connectorsOf(IDS).map((connector) => ({ ...connector, priority: connector.id === id ? 0 : 1 }));

  it('belongs to its principal, and is pinned per requested model', async () => {
    const proxy = await start({ connectors: preferring('con_a') });
    expect(await ask(proxy, { session: 's' })).toBe('con_a');
    proxy.publish({ connectors: preferring('con_b') });
    expect(await ask(proxy, { session: 's', token: BOB })).toBe('con_b');
    proxy.publish({ connectors: preferring('con_c') });
    expect(await ask(proxy, { session: 's', model: 'mock/gpt/with/slashes' })).toBe('con_c');
    expect(await ask(proxy, { session: 's' })).toBe('con_a');
    expect(await ask(proxy, { session: 's', token: BOB })).toBe('con_b');
    expect(await ask(proxy, { session: 't' })).toBe('con_c');
  });

  it('is named by prompt_cache_key where the header is absent and the profile says so', async () => {
    const profiles = [true, false].map((pinPromptCacheKeys) => ({
      id: `prf_${pinPromptCacheKeys}`,
      name: pinPromptCacheKeys ? 'pins' : 'pins-not',
      targets: [{ model: 'mock/echo', weight: 1 }],
      pinPromptCacheKeys,
    }));
    const proxy = await start({ connectors: preferring('con_a'), profiles });
    const body = { prompt_cache_key: 'k' };
    const models = ['router/pins', 'router/pins-not', 'mock/echo'];
    const askAll = () => Promise.all(models.map((model) => ask(proxy, { body, model })));
    expect(await askAll()).toEqual(['con_a', 'con_a', 'con_a']);
    proxy.publish({ connectors: preferring('con_b'), profiles });
    expect(await askAll()).toEqual(['con_a', 'con_b', 'con_b']);
    const model = 'router/pins';
    expect(await ask(proxy, { body, model, session: 's' })).toBe('con_b');
    expect(await ask(proxy, { body: { prompt_cache_key: 5 }, model })).toBe('con_b');
  });

  it('has one pin on all routes that its target serves', async () => {
    const proxy = await start({ connectors: preferring('con_a') });
    const responses = { session: 's', path: '/v1/responses', body: { store: false } };
    expect(await ask(proxy, { session: 's' })).toBe('con_a');
    proxy.publish({ connectors: preferring('con_b') });
    expect(await ask(proxy, responses)).toBe('con_a');
    expect(await ask(proxy, { ...responses, session: 't' })).toBe('con_b');
    proxy.publish({ connectors: preferring('con_c') });
    expect(await ask(proxy, { session: 't' })).toBe('con_b');
    expect(proxy.pinResults.filter((result) => result === 'new')).toHaveLength(2);
  });

  it('is not looked up for a request that names none', async () => {
    const proxy = await start({ connectors: preferring('con_a') });
    await ask(proxy, {});
    proxy.publish({ connectors: preferring('con_b') });
    expect(await ask(proxy, {})).toBe('con_b');
    expect([proxy.pinResults, proxy.pinStoreErrors]).toEqual([[], []]);
  });

  it('continues on another target for a route that its own does not serve', async () => {
    const proxy = await start({ connectors: preferring('con_a') });
    expect(await ask(proxy, { session: 's' })).toBe('con_a');
    const responses = { session: 's', path: '/v1/responses', body: { store: false } };
    const serving = (preferred: string) =>
      preferring(preferred).map((one) =>
        one.id === 'con_a' ? { ...one, routes: [Route.CHAT_COMPLETIONS] } : one,
      );
    proxy.publish({ connectors: serving('con_b') });
    expect(await ask(proxy, responses)).toBe('con_b');
    proxy.publish({ connectors: serving('con_c') });
    expect(await ask(proxy, responses)).toBe('con_b');
    expect(await ask(proxy, { session: 's' })).toBe('con_a');
    proxy.publish({ connectors: preferring('con_c') });
    expect(await ask(proxy, responses)).toBe('con_a');
  });
});

describe('with vendors that store responses', () => {
  let vendors: MockVendor[];
  const hits = () => vendors.map(({ requests }) => requests.length);

  async function startWithTwo(options: Partial<TestProxyOptions> = {}): Promise<TestProxy> {
    vendors = [await startMockVendor(), await startMockVendor()];
    for (const one of vendors) onTestFinished(() => one.close());
    const connectors = vendors.map(({ url }) => ({ baseUrl: url }));
    return start({ connectors, ...options });
  }

  async function respond(proxy: TestProxy, body: object, headers: Record<string, string> = {}) {
    const answer = await post(proxy, '/v1/responses', { model: 'mock/echo', input: 'x', ...body }, headers);
    expect(answer.status).toBe(200);
    return (await answer.json()) as { id: string };
  }

  it('a continued response goes to its account, and the session stays pinned', async () => {
    const proxy = await startWithTwo();
    const session = { 'x-svc-session-id': 's' };
    const swapped = () => vendors.map(({ url }, at) => ({ baseUrl: url, priority: 1 - at }));
    await respond(proxy, {}, session);
    proxy.publish({ connectors: swapped() });
    const { id } = await respond(proxy, {});
    expect(hits()).toEqual([1, 1]);
    await respond(proxy, { previous_response_id: id }, session);
    expect(hits()).toEqual([1, 2]);
    await respond(proxy, {}, session);
    expect(hits()).toEqual([2, 2]);
  });

  it('a request that failed over does not move its session', async () => {
    const proxy = await startWithTwo({ maxRetries: 1 });
    const session = { 'x-svc-session-id': 's' };
    await respond(proxy, {}, session);
    const down = vendors.map(({ url }, at) => ({ baseUrl: at === 0 ? 'http://127.0.0.1:1/v1' : url }));
    proxy.publish({ connectors: down });
    await respond(proxy, {}, session);
    expect([hits(), proxy.failovers]).toEqual([[1, 1], ['con_0: unreachable']]);
    proxy.publish({ connectors: vendors.map(({ url }) => ({ baseUrl: url })) });
    await respond(proxy, {}, session);
    expect(hits()).toEqual([2, 1]);
  });
});
