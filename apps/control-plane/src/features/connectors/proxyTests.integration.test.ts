import { create } from '@bufbuild/protobuf';
import { ConnectorTestedSchema } from '@weighbridge/contracts';
import { createDb, type Database, listen } from '@weighbridge/database';
import { createTestDatabase } from '@weighbridge/testing';
import { expect, it, onTestFinished } from 'vitest';
import { ProxyTests, TESTED_CHANNEL, TESTS_CHANNEL, type TestRequest } from './proxyTests.ts';

const HOUR_MS = 3_600_000;
const TWO = [
  { id: 'one', name: 'proxy-1' },
  { id: 'two', name: 'proxy-2' },
];

/** A control plane that hears the others, with the proxies that are connected to it. */
async function startControlPlane(
  db: Database,
  url: string,
  connected: readonly string[],
  { live = TWO, models = ['a'], timeoutMs = 500 } = {},
): Promise<ProxyTests> {
  const tests = new ProxyTests({ db, liveProxies: async () => live, timeoutMs });
  let listening = () => {};
  const started = new Promise<void>((resolve) => {
    listening = resolve;
  });
  const listener = listen(
    url,
    {
      [TESTED_CHANNEL]: (text) => text !== undefined && tests.heard(text),
      [TESTS_CHANNEL]: (text) => {
        if (text === undefined) return listening();
        const { testId, connectorId, proxies } = JSON.parse(text) as TestRequest;
        for (const id of connected.filter((one) => proxies.includes(one))) {
          const tested = { testId, ok: id === 'one', message: `${connectorId} by ${id}`, models };
          void tests.tell({ id, name: `proxy of ${id}` }, create(ConnectorTestedSchema, tested));
        }
      },
    },
    { onError: () => {} },
  );
  onTestFinished(() => listener.close());
  await started;
  return tests;
}

async function scene() {
  const database = await createTestDatabase();
  const db = createDb(database.url, { applicationName: 'test', onIdleError: () => {} });
  onTestFinished(async () => {
    await db.destroy();
    await database.drop();
  });
  return { db, url: database.url };
}

it('proxies of other control planes answer too, each by its name', async () => {
  const { db, url } = await scene();
  const asked = await startControlPlane(db, url, ['one']);
  await startControlPlane(db, url, ['two']);
  await expect
    .poll(async () =>
      (await asked.run('con_1')).findings.map(({ proxy, ok, message }) => [proxy.name, ok, message]).sort(),
    )
    .toEqual([
      ['proxy of one', true, 'con_1 by one'],
      ['proxy of two', false, 'con_1 by two'],
    ]);
});

it('names the proxies that do not answer in time', async () => {
  const { db, url } = await scene();
  const asked = await startControlPlane(db, url, ['one']);
  // Nothing but the time-out ends a test that a proxy does not answer.
  await expect
    .poll(async () => {
      const { findings, silent } = await asked.run('con_1');
      return [findings.length, silent];
    })
    .toEqual([1, ['proxy-2']]);
});

it('waits no longer than for the last of the proxies', async () => {
  const { db, url } = await scene();
  const asked = await startControlPlane(db, url, ['one', 'two'], { timeoutMs: HOUR_MS });
  const { findings, silent } = await asked.run('con_1');
  expect([findings.length, silent]).toEqual([2, []]);
});

it('asks no one if no proxy is connected, and five of many', async () => {
  const { db, url } = await scene();
  const none = await startControlPlane(db, url, [], { live: [] });
  expect(await none.run('con_1')).toEqual({ findings: [], silent: [] });
  const many = Array.from({ length: 9 }, (_, n) => ({ id: `p${n}`, name: `p${n}` }));
  const asked = await startControlPlane(db, url, [], { live: many });
  expect((await asked.run('con_1')).silent).toEqual(['p0', 'p1', 'p2', 'p3', 'p4']);
});

it('an answer with long names of models passes, without those that are too many', async () => {
  const { db, url } = await scene();
  const models = Array.from({ length: 100 }, (_, n) => `${n}-${'ä'.repeat(120)}`);
  const asked = await startControlPlane(db, url, ['one'], { live: TWO.slice(0, 1), models });
  await expect.poll(async () => (await asked.run('con_1')).findings.length).toBe(1);
  const [finding] = (await asked.run('con_1')).findings;
  expect([finding?.hasMoreModels, finding?.models[0]]).toEqual([true, models[0]]);
});
