import { create } from '@bufbuild/protobuf';
import { Enforcement, type Key, KeySchema, type Policy, PolicySchema } from '@weighbridge/contracts';
import { describe, expect, it } from 'vitest';
import {
  isChainOutdated,
  type PolicyChain,
  PolicyTable,
  settingsRevision,
  withNewerSettings,
} from './policyTable.ts';

const counter = (policyId: string, structure = 7n, allowedModels: string[] = []) => ({
  bucket: { policyId, counterVersion: 3, subject: `key:${policyId}`, windowStartMs: 5n },
  windowEndMs: 9n,
  windowRemainingMs: 4n,
  structure,
  allowedModels,
});

function keyUnder(...policyIds: string[]): Key {
  return create(KeySchema, { id: 'key_1', profileId: 'prf_1', policies: policyIds.map((id) => counter(id)) });
}

function settingsOf(id: string, allowedModels: string[], structure = 7n): Policy {
  return create(PolicySchema, {
    id,
    settings: { allowedModels, structure, enforcement: Enforcement.SHADOW, maxParallel: 2 },
  });
}

function change(revision: bigint, policies: Policy[], ids = policies.map(({ id }) => id)) {
  return { revision, policyIds: new Set(ids), policies };
}

const modelsOf = (key: Key, chain: PolicyChain, revision = 1n) =>
  withNewerSettings(key, chain, revision).policies.map(({ allowedModels }) => allowedModels);

describe('the policies that cached keys name', () => {
  it('share a chain among keys of the same policies, and have a row while a key names them', () => {
    const table = new PolicyTable({ freeBytes: 1_000_000 });
    const [a, b] = [table.acquire(keyUnder('pol_1', 'pol_2')), table.acquire(keyUnder('pol_1', 'pol_2'))];
    const other = table.acquire(keyUnder('pol_2'));
    expect([a === b, table.size]).toEqual([true, 2]);
    table.release(a);
    table.release(b);
    expect(table.size).toBe(1);
    table.release(other);
    expect(table.size).toBe(0);
  });

  it('count in replacements, too', () => {
    const table = new PolicyTable({ freeBytes: 1_000_000 });
    const replacements = [{ profileId: 'prf_1', policies: [counter('pol_2'), counter('pol_1')] }];
    const key = create(KeySchema, { policies: [counter('pol_1')], replacements });
    const chain = table.acquire(key);
    table.apply(change(2n, [settingsOf('pol_2', ['b'])]));
    const { policies, replacements: replaced } = withNewerSettings(key, chain, 1n);
    expect(policies[0]?.allowedModels).toEqual([]);
    expect(replaced[0]?.policies.map(({ allowedModels }) => allowedModels)).toEqual([['b'], []]);
    table.apply(change(3n, [], ['pol_2']));
    expect(isChainOutdated(chain, 1n)).toBe(true);
  });

  it('give keys read before a change its settings, with their own buckets and windows', () => {
    const table = new PolicyTable({ freeBytes: 1_000_000 });
    const key = keyUnder('pol_1', 'pol_2');
    const chain = table.acquire(key);
    table.apply(change(2n, [settingsOf('pol_2', ['b'])]));
    expect([isChainOutdated(chain, 1n), settingsRevision(chain, 1n)]).toEqual([false, 2n]);
    const { bucket, windowEndMs, windowRemainingMs } = counter('pol_2');
    expect(withNewerSettings(key, chain, 1n)).toMatchObject({
      profileId: 'prf_1',
      policies: [
        counter('pol_1'),
        { bucket, windowEndMs, windowRemainingMs, allowedModels: ['b'], maxParallel: 2 },
      ],
    });
    // A key that was read since has its own.
    expect([settingsRevision(chain, 2n), modelsOf(key, chain, 2n)]).toEqual([2n, [[], []]]);
  });

  it('are outdated for keys of another structure, of none, and without settings', () => {
    const table = new PolicyTable({ freeBytes: 1_000_000 });
    const current = table.acquire(keyUnder('pol_1'));
    const other = table.acquire(create(KeySchema, { policies: [counter('pol_1', 8n)] }));
    const old = table.acquire(create(KeySchema, { policies: [counter('pol_1', 0n)] }));
    const outdated = (revision: bigint) =>
      [current, other, old].map((chain) => isChainOutdated(chain, revision));
    expect(outdated(1n)).toEqual([false, false, false]);
    table.apply(change(2n, [settingsOf('pol_1', ['a'])]));
    expect(outdated(1n)).toEqual([false, true, true]);
    expect(outdated(2n)).toEqual([false, false, false]);
    // A control plane of release 0.1.0 sends only the ids.
    table.apply({ revision: 3n, policyIds: new Set(['pol_1']) });
    expect(outdated(2n)).toEqual([true, true, true]);
    expect(outdated(3n)).toEqual([false, false, false]);
  });

  it('take no older change, and none of a policy that no key names', () => {
    const table = new PolicyTable({ freeBytes: 1_000_000 });
    const key = keyUnder('pol_1');
    const chain = table.acquire(key);
    table.apply(change(3n, [settingsOf('pol_1', ['new']), settingsOf('pol_2', ['unnamed'])]));
    table.apply(change(2n, [settingsOf('pol_1', ['old'])]));
    expect([modelsOf(key, chain), table.size]).toEqual([[['new']], 1]);
  });

  it('are bounded in bytes: a key whose settings found no room is read again', () => {
    const table = new PolicyTable({ freeBytes: 3_000 });
    const chains = ['pol_1', 'pol_2'].map((id) => table.acquire(keyUnder(id)));
    const large = ['x'.repeat(2_000)];
    table.apply(change(2n, [settingsOf('pol_1', large), settingsOf('pol_2', large)]));
    expect(chains.map((chain) => isChainOutdated(chain, 1n))).toEqual([false, true]);
    // Its room is free once it is not named any more.
    for (const chain of chains.splice(0, 1)) table.release(chain);
    table.apply(change(3n, [settingsOf('pol_2', large)]));
    expect(chains.map((chain) => isChainOutdated(chain, 1n))).toEqual([false]);
  });
});
