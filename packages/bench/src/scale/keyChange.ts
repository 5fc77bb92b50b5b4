import { create } from '@bufbuild/protobuf';
import { KeySchema, ResolveResponseSchema } from '@weighbridge/contracts';
import { openKeyCacheForBenchmark } from '@weighbridge/data-plane/benchmarks';
import { figure } from '../shared/figures.ts';
import type { Lane } from './lane.ts';

const KEYS = 26_500;
const KEYS_PER_PRINCIPAL = 10;
const CHANGES = 200;
const HOUR_MS = 3_600_000;

/** A change of a key, a principal or a policy at a proxy that knows many keys: how long nothing else runs. */
export const keyChange: Lane = {
  name: 'a key changes',
  size: `${KEYS.toLocaleString('en-US')} keys known at a proxy`,
  async measure(_run, factor) {
    const keys = KEYS * factor;
    let known = 0;
    const cache = openKeyCacheForBenchmark(async () => {
      const key = create(KeySchema, {
        id: `key_${known}`,
        principalId: `principal_${Math.floor(known / KEYS_PER_PRINCIPAL)}`,
        policies: [{ bucket: { policyId: 'policy_company' } }],
      });
      known++;
      return create(ResolveResponseSchema, { key, revision: 1n, maxAgeMs: HOUR_MS });
    });
    for (let at = 0; at < keys; at++)
      await cache.authenticate(`Bearer sk-svc-${String(at).padStart(43, '0')}`);
    let revision = 1n;
    const changes = (of: 'keyIds' | 'principalIds' | 'policyIds', id: (at: number) => string) =>
      Array.from({ length: CHANGES }, (_, at) => {
        const nothing = {
          keyIds: new Set<string>(),
          principalIds: new Set<string>(),
          policyIds: new Set<string>(),
        };
        const named = { ...nothing, [of]: new Set([id(at)]), revision: ++revision };
        const began = performance.now();
        cache.invalidate(named);
        return (performance.now() - began) * 1_000;
      });
    const ofKeys = changes('keyIds', (at) => `key_${at * 7}`);
    const ofPrincipals = changes('principalIds', (at) => `principal_${at * 7}`);
    const ofPolicy = changes('policyIds', () => 'policy_company');
    return {
      'µs of a change of a key': figure(ofKeys).median,
      'of a principal': figure(ofPrincipals).median,
      'of a policy above all keys': figure(ofPolicy).median,
      'the slowest of them': figure([...ofKeys, ...ofPrincipals, ...ofPolicy]).max,
    };
  },
};
