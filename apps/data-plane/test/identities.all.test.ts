import { afterAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { IDENTITIES, type OpenCloud } from './identifiedClouds.ts';
import {
  clearIdentityEnvironment,
  type IdentityScene,
  NANO_PER_TOKEN,
  startIdentityScene,
} from './identityScenes.ts';
import { useVendor } from './useProxy.ts';

const vendor = useVendor();
const LIFE_MS = 600_000;

beforeEach(() => clearIdentityEnvironment(Object.keys(process.env)));
afterAll(() => void vi.unstubAllEnvs());

function openOf(name: string): OpenCloud {
  const open = IDENTITIES[name];
  if (!open) throw new Error(`no identity is called ${name}`);
  return open;
}

const charged = ({ proxy }: IdentityScene) =>
  proxy.events.reduce((sum, { costNanoUsd }) => sum + costNanoUsd, 0n);
const billed = () =>
  vendor.bill.reduce(
    (sum, { inputTokens, outputTokens }) => sum + BigInt(inputTokens + outputTokens) * NANO_PER_TOKEN,
    0n,
  );

/** One source of each kind, with the requests that wait at once: they all wait in the same place. */
const KINDS = [
  ['a client of OAuth', 1_000],
  ['an application of Entra ID', 100],
  ['a service account of Google', 100],
  ['a role at AWS', 100],
] as const;

it.each(KINDS)(
  'requests that wait for the token of %s ask for it once, all %d of them',
  async (name, count) => {
    const scene = await startIdentityScene(openOf(name), vendor.url);
    scene.provider.delayMs = 300;
    const answers = await Promise.all(Array.from({ length: count }, () => scene.ask()));
    expect(answers.filter(({ status }) => status !== 200)).toEqual([]);
    expect([scene.provider.issued.length, scene.refusals]).toEqual([1, []]);
    // On a busy machine the simulator itself can't pass some on at first, and gets them again.
    expect(scene.taken()).toBeGreaterThanOrEqual(count);
  },
);

describe.each(Object.entries(IDENTITIES))('a connector by %s', (_name, open) => {
  it('gets new tokens under load without a failed request, and is charged what is billed', async () => {
    const scene = await startIdentityScene(open, vendor.url, { lifeMs: LIFE_MS });
    let isOver = false;
    let served = 0;
    const failed: string[] = [];
    const load = async () => {
      while (!isOver) {
        const { status, text } = await scene.ask({ stream: served % 2 === 0 });
        served++;
        if (status !== 200) failed.push(text);
      }
    };
    const all = Promise.all(Array.from({ length: 8 }, load));
    for (let life = 1; life <= 4; life++) {
      // A little after the time at which it is refreshed at the latest; the last one is valid until there is a new one.
      await expect.poll(() => scene.provider.issued.length).toBe(life);
      const before = served;
      await expect.poll(() => served).toBeGreaterThan(before + 16);
      if (life < 4) scene.clock.skippedMs += 0.86 * LIFE_MS;
    }
    isOver = true;
    await all;
    expect([failed, scene.refusals, scene.proxy.unauthorized]).toEqual([[], [], []]);
    await expect.poll(() => scene.proxy.events.length).toBe(scene.taken());
    expect(charged(scene)).toBe(billed());
  });

  it.each(['down', 'hanging', 'failing'] as const)(
    'loses no request while what issues its tokens is %s for a minute',
    async (mode) => {
      const scene = await startIdentityScene(open, vendor.url, { lifeMs: LIFE_MS });
      const began = performance.now();
      expect(await scene.ask()).toMatchObject({ status: 200 });
      const { clock, provider, proxy } = scene;
      provider.mode = mode;
      for (let at = 511_000; at <= 571_000; at += 10_000) {
        // However long the requests before it took.
        clock.skippedMs = at - (performance.now() - began);
        expect(await scene.ask()).toMatchObject({ status: 200 });
      }
      if (mode !== 'hanging') await expect.poll(() => proxy.tokenFailures.length).toBeGreaterThan(0);
      expect(proxy.tokenFailures.every(({ hasToken }) => hasToken)).toBe(true);
      expect([provider.issued.length, proxy.unauthorized, proxy.failovers]).toEqual([1, [], []]);
    },
  );

  it('gets another token when one is revoked before it expires, and the request succeeds', async () => {
    const scene = await startIdentityScene(open, vendor.url);
    expect(await scene.ask()).toMatchObject({ status: 200 });
    scene.provider.revokeTokens();
    scene.clock.skippedMs = 10_000;
    expect(await scene.ask()).toMatchObject({ status: 200 });
    const { provider, refusals, proxy } = scene;
    expect([provider.issued.length, refusals.length, proxy.unauthorized]).toEqual([2, 1, []]);
    expect(proxy.failovers).toEqual(['con_0: credential']);
  });
});
