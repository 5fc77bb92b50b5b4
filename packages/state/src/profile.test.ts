import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { ProfileSchema } from '@weighbridge/contracts';
import { type RoutingProfile, STRATEGIES } from '@weighbridge/domain';
import { expect, it } from 'vitest';
import { profileMessage, routingProfile } from './profile.ts';

it.each(STRATEGIES)('a profile by %s is the same after its message', (strategy) => {
  const profile: RoutingProfile = {
    id: 'prf_1',
    name: 'cheap',
    strategy,
    targets: [{ model: 'acme/a', weight: 3 }],
    constraints: {
      contextWindow: 1_000,
      maxInputNanoUsd: 5n,
      maxOutputNanoUsd: undefined,
      minScore: 70.5,
      capabilities: ['tools'],
    },
    cache: { scope: 'policy', ttlMs: 60_000 },
    pinsPromptCacheKeys: true,
    translatesStrictly: true,
    cachesPrompts: true,
  };
  const bytes = toBinary(ProfileSchema, create(ProfileSchema, profileMessage(profile)));
  expect(routingProfile(fromBinary(ProfileSchema, bytes))).toEqual(profile);
});

it('a strategy of a newer control plane is the order of the profile', () => {
  const unknown = create(ProfileSchema, { id: 'prf_1', name: 'new', strategy: 99 as never });
  expect(routingProfile(unknown).strategy).toBe('ordered');
});
