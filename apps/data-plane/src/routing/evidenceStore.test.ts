import { create } from '@bufbuild/protobuf';
import { EvidenceSchema } from '@weighbridge/contracts';
import { HALF_LIFE_MS } from '@weighbridge/domain';
import { describe, expect, it } from 'vitest';
import { createEvidenceStore } from './evidenceStore.ts';

const models = (requests: number, model = 'mock/a') => [
  { model, requests, successes: requests, latencyMs: 8 },
];

function known() {
  let nowMs = 1_000_000_000;
  const evidence = createEvidenceStore({ nowMs: () => nowMs });
  return {
    evidence,
    take: (news: Parameters<typeof create<typeof EvidenceSchema>>[1]) =>
      evidence.apply(create(EvidenceSchema, news)),
    pass: (ms: number) => {
      nowMs += ms;
    },
  };
}

describe('evidence about models', () => {
  it('is stored by workload type, and replaced by later updates', () => {
    const { evidence, take } = known();
    expect(evidence.strata('chat', 'mock/a')).toBeUndefined();
    take({ isFirst: true, types: [{ workloadType: 'chat', models: models(4) }] });
    take({ types: [{ workloadType: 'code', models: models(1, 'mock/b') }] });
    expect(evidence.strata('chat', 'mock/a')).toMatchObject({
      workloadType: 'chat',
      model: 'mock/a',
      requests: 4,
    });
    expect(evidence.strata('code', 'mock/a')).toBeUndefined();
    take({ types: [{ workloadType: 'chat', models: models(5) }] });
    expect(evidence.strata('chat', 'mock/a')?.requests).toBe(5);
    take({ forgottenTypes: ['chat'] });
    expect(evidence.size).toBe(1);
    take({ isFirst: true, types: [] });
    expect(evidence.size).toBe(0);
  });

  it('decays with time', () => {
    const { evidence, take, pass } = known();
    take({ types: [{ workloadType: 'chat', models: models(4), ageMs: BigInt(HALF_LIFE_MS) }] });
    expect(evidence.strata('chat', 'mock/a')?.requests).toBeCloseTo(2);
    pass(HALF_LIFE_MS);
    expect(evidence.strata('chat', 'mock/a')?.requests).toBeCloseTo(1);
    expect(evidence.strata('*', 'mock/a')?.requests).toBeCloseTo(1);
  });

  it('falls back to all workload types together where one is unknown', () => {
    const { evidence, take } = known();
    take({
      types: [
        { workloadType: '', models: models(3) },
        { workloadType: 'chat', models: models(4) },
      ],
    });
    expect(evidence.strata('new', 'mock/a')?.requests).toBe(3);
    expect(evidence.strata('chat', 'mock/a')?.requests).toBe(4);
    expect(evidence.strata('*', 'mock/a')?.requests).toBe(7);
    take({ forgottenTypes: ['chat'] });
    expect(evidence.strata('*', 'mock/a')?.requests).toBe(3);
  });

  it('is bounded', () => {
    const { evidence, take } = known();
    const types = Array.from({ length: 5_000 }, (_, n) => ({ workloadType: `type ${n}`, models: models(1) }));
    take({ types });
    expect(evidence.size).toBe(2_000);
    expect(evidence.strata('type 4999', 'mock/a')?.requests).toBe(1);
  });
});
