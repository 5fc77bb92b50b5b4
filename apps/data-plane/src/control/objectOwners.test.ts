import { create, type MessageInitShape } from '@bufbuild/protobuf';
import {
  type FindResponseRequestSchema,
  FindResponseResponseSchema,
  FindResponseResponse_Ownership as Ownership,
} from '@weighbridge/contracts';
import type { ResolvedKey } from '@weighbridge/state';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { createObjectOwners, type NewObjects } from './objectOwners.ts';

type Find = MessageInitShape<typeof FindResponseRequestSchema>;
const OWNERSHIP: Record<string, Ownership> = { mine: Ownership.OWN, theirs: Ownership.FOREIGN };
const ownerOf = (id: string) => {
  const ownership = OWNERSHIP[id] ?? Ownership.UNKNOWN;
  return ownership === Ownership.OWN
    ? { ownership, connectorId: 'con_1', containerGb: 16 }
    : { ownership, connectorId: '', containerGb: 0 };
};
const key = { id: 'key_1', principalId: 'ada' } as ResolvedKey;
const answer: NewObjects = {
  responseId: 'resp_1',
  objectIds: ['msg_1'],
  areLasting: false,
  containerGb: 0,
  connectorId: 'con_1',
  key,
  unfinished: undefined,
};

/** A control plane of this release, or of one that knows of responses only. */
function controlPlane(release: 'this' | 'earlier') {
  const asked: Find[] = [];
  const owners = createObjectOwners(
    {
      recordResponse: async () => ({}),
      findResponse: async (request: Find) => {
        asked.push(request);
        const { responseId = '', objectIds = [] } = request;
        const objects = release === 'this' ? objectIds.map(ownerOf) : [];
        return create(FindResponseResponseSchema, { ...ownerOf(responseId), objects });
      },
    },
    'producer',
  );
  return { owners, asked };
}

describe('the owners of several objects', () => {
  const OWNERS = [
    { kind: 'own', connectorId: 'con_1', containerGb: 16, isUnfinished: false, isClaim: false },
    { kind: 'foreign', isClaim: false },
    { kind: 'unknown' },
  ];

  it('are asked for in one call', async () => {
    const { owners, asked } = controlPlane('this');
    expect(await owners.findAll(['mine', 'theirs', 'no one’s'], 'ada')).toEqual(OWNERS);
    expect(asked).toHaveLength(1);
    expect(await owners.findAll(['theirs'], 'ada')).toEqual([{ kind: 'foreign', isClaim: false }]);
    expect(await owners.findAll([], 'ada')).toEqual([]);
    expect(asked).toHaveLength(2);
  });

  it('are asked for one by one of a control plane that does not know the call, some at once', async () => {
    const { owners, asked } = controlPlane('earlier');
    expect(await owners.findAll(['mine', 'theirs', 'no one’s'], 'ada')).toEqual(OWNERS);
    expect(asked).toHaveLength(4);
    const many = Array.from({ length: 100 }, (_, n) => (n === 70 ? 'theirs' : `msg_${n}`));
    const found = await owners.findAll(many, 'ada');
    expect(found.findIndex(({ kind }) => kind === 'foreign')).toBe(70);
    expect(found).toHaveLength(100);
  });
});

describe('a record', () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  it('that may be late does not hold the answer for long, and is made once the control plane is there', async () => {
    const recorded: unknown[] = [];
    let isAway = true;
    const owners = createObjectOwners(
      {
        recordResponse: async (message) => {
          if (isAway) throw new Error('unavailable');
          recorded.push(message.responseId);
        },
        findResponse: async () => create(FindResponseResponseSchema),
      },
      'producer',
    );
    await owners.recordSoon(answer);
    await owners.recordSoon({ ...answer, responseId: 'resp_2' });
    await vi.advanceTimersByTimeAsync(20_000);
    expect(recorded).toEqual([]);
    isAway = false;
    await vi.advanceTimersByTimeAsync(10_000);
    expect(recorded).toEqual(['resp_1', 'resp_2']);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(recorded).toHaveLength(2);
  });

  it('that the control plane does not answer for a second lets the answer pass, and no sooner', async () => {
    const recordResponse = vi.fn(() => new Promise<never>(() => {}));
    const owners = createObjectOwners(
      {
        recordResponse,
        findResponse: async () => create(FindResponseResponseSchema),
      },
      'producer',
    );
    let hasPassed = false;
    void owners.recordSoon(answer).then(() => {
      hasPassed = true;
    });
    await vi.advanceTimersByTimeAsync(999);
    expect([recordResponse.mock.calls.length, hasPassed]).toEqual([1, false]);
    await vi.advanceTimersByTimeAsync(1);
    expect(hasPassed).toBe(true);
  });

  it('that must be made fails after three tries', async () => {
    const recordResponse = vi.fn().mockRejectedValue(new Error('unavailable'));
    const owners = createObjectOwners(
      { recordResponse, findResponse: async () => create(FindResponseResponseSchema) },
      'producer',
    );
    const recording = owners.record(answer);
    const failing = expect(recording).rejects.toMatchObject({ code: 'response_not_recorded' });
    await vi.advanceTimersByTimeAsync(1_000);
    await failing;
    expect(recordResponse).toHaveBeenCalledTimes(3);
  });
});
